#include "tools/cli/completion.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "base/text.h"
#include "tools/cli/candidates.h"

namespace carillon::cli {
namespace {

constexpr char kFiles[] = ":files";

// ./carillon builds before it runs, so the scripts ask the program itself:
// @PROGRAM@, in quotes.

// bash cuts words at '=' and ':'. With bash-completion they come whole; without
// it the program joins them at '='.
constexpr char kBash[] =
    R"bash(# Completes the command line of carillon in bash:
#   source <(carillon completion bash)
_carillon() {
  local cur prev words cword line typed files=
  if declare -F _init_completion > /dev/null; then
    _init_completion -n =: || return
  else
    words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]}
  fi
  # The words are as they were typed, with their quotes.
  for ((line = 1; line < cword; ++line)); do
    typed=${words[line]}
    if [[ $typed == \'*\' ]]; then
      typed=${typed:1:-1}
    else
      [[ $typed == \"*\" ]] && typed=${typed:1:-1}
      typed=${typed//\\/}
    fi
    words[line]=$typed
  done
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      files=1
    else
      COMPREPLY+=("${line%%$'\t'*}")
    fi
  done < <(@PROGRAM@ complete -- "${words[@]:1:cword}" 2> /dev/null)
  # What readline puts in the place of a word begins behind the last cut.
  typed=${cur##*[=:]}
  [[ $COMP_WORDBREAKS == *=* ]] || typed=$cur
  COMPREPLY=("${COMPREPLY[@]#"${cur%"$typed"}"}")
  # Readline quotes names of files only.
  if [[ -z $files ]]; then
    for line in "${!COMPREPLY[@]}"; do
      printf -v "COMPREPLY[line]" %q "${COMPREPLY[line]}"
    done
  else
    compopt -o filenames
    while IFS= read -r line; do
      COMPREPLY+=("$line")
    done < <(compgen -f -- "$typed")
  fi
}
complete -F _carillon carillon ./carillon
)bash";

constexpr char kZsh[] = R"zsh(#compdef carillon
# Completes the command line of carillon in zsh:
#   source <(carillon completion zsh)
_carillon() {
  local line files=
  local -a found
  for line in ${(f)"$(@PROGRAM@ complete -- "${(@Q)words[2,CURRENT-1]}" "$PREFIX" 2> /dev/null)"}; do
    if [[ $line == :files ]]; then
      files=1
    else
      found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    fi
  done
  (( $#found )) && _describe carillon found
  [[ -n $files ]] && _files
}
compdef _carillon carillon
)zsh";

constexpr char kFish[] =
    R"fish(# Completes the command line of carillon in fish:
#   carillon completion fish | source
function __carillon_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in (@PROGRAM@ complete -- $words[2..-1] 2> /dev/null)
        if test "$line" = ":files"
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c carillon -f -a '(__carillon_complete)'
)fish";

std::string ScriptOf(const std::string& shell) {
  std::error_code error;
  std::string program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) program = "carillon";
  // fish escapes in quotes, the others cannot.
  program = shell == "fish"
                ? absl::StrReplaceAll(program, {{"\\", "\\\\"}, {"'", "\\'"}})
                : absl::StrReplaceAll(program, {{"'", "'\\''"}});
  const char* const script = shell == "bash"  ? kBash
                             : shell == "zsh" ? kZsh
                                              : kFish;
  return absl::StrReplaceAll(script,
                             {{"@PROGRAM@", fmt::format("'{}'", program)}});
}

// It goes to a terminal, past the shell.
std::string Line(const Candidate& candidate) {
  return EscapeBytes(candidate.word, absl::ascii_iscntrl) + "\t" +
         EscapeBytes(candidate.help, absl::ascii_iscntrl) + "\n";
}

}  // namespace

Run MakeCompletion(Arguments& arguments, Console& console) {
  auto shell = std::make_shared<std::string>();
  arguments
      .Choice("shell SHELL", *shell, {"bash", "zsh", "fish"},
              "Whose: bash, zsh or fish")
      .Required();
  return [shell, &console] {
    console.Print(ScriptOf(*shell));
    return absl::OkStatus();
  };
}

Run MakeComplete(Arguments& arguments, Console& console) {
  auto words = std::make_shared<std::vector<std::string>>();
  arguments.Texts("word WORD", *words, "The words so far, behind a --");
  return [words, &console] {
    const Candidates found = FindCandidates(*words, console);
    std::string text;
    for (const Candidate& candidate : found.words) text += Line(candidate);
    if (found.files) text += fmt::format("{}\n", kFiles);
    console.Print(text);
    return absl::OkStatus();
  };
}

}  // namespace carillon::cli
