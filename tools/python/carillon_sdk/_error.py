"""What goes wrong."""


class Error(Exception):
    def __init__(self, message, reason, remedy):
        super().__init__(message, reason, remedy)
        self.reason = reason
        self.remedy = remedy

    def __str__(self):
        return self.args[0]
