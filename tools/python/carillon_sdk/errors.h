// How errors of the SDK reach Python: as carillon_sdk.Error, with its message,
// the word that programs look at, and what to do.
#ifndef CARILLON_TOOLS_PYTHON_CARILLON_SDK_ERRORS_H_
#define CARILLON_TOOLS_PYTHON_CARILLON_SDK_ERRORS_H_

#include <pybind11/pybind11.h>

#include <exception>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace carillon::python {

// Lives between the code that finds an error and the interpreter.
class EdgeError : public std::exception {
 public:
  EdgeError(std::string message, std::string reason, std::string remedy);
  // `reason` is gpud's ("EKT_FULL"), the word that the session's end begins with
  // ("PEER_DEAD"), or the code ("INVALID_ARGUMENT").
  explicit EdgeError(const absl::Status& status);
  const char* what() const noexcept override { return message_.c_str(); }
  const std::string& reason() const { return reason_; }
  const std::string& remedy() const { return remedy_; }

 private:
  std::string message_;
  std::string reason_;
  std::string remedy_;
};

inline void Must(const absl::Status& status) {
  if (!status.ok()) throw EdgeError(status);
}

template <class T>
T Must(absl::StatusOr<T> result) {
  Must(result.status());
  return *std::move(result);
}

// As Python writes it: for messages.
inline std::string Repr(pybind11::handle object) {
  return std::string(pybind11::repr(object));
}

// Makes EdgeError an exception of Python for all functions of the module.
void RegisterErrors();

}  // namespace carillon::python

#endif  // CARILLON_TOOLS_PYTHON_CARILLON_SDK_ERRORS_H_
