// Scripts that make a shell ask `moetune __complete` for the words that may follow.
#include "base/suggest.h"
#include "cli/help.h"

namespace moetune {
namespace {

// Bash breaks words at = and :, as far as COMP_WORDBREAKS says, and replaces the last part alone.
constexpr const char* kBash = R"script(# bash completion for moetune, as `moetune completion bash` prints it
_moetune() {
  local line=${COMP_LINE:0:COMP_POINT} breaks= prefix= candidate words found
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  local current=${words[-1]}
  [[ $COMP_WORDBREAKS == *=* ]] && breaks+="="
  [[ $COMP_WORDBREAKS == *:* ]] && breaks+=":"
  [[ -n $breaks ]] && prefix=${current%"${current##*[$breaks]}"}
  COMPREPLY=()
  while IFS=$'\t' read -r candidate _; do
    case $candidate in
      :files) mapfile -t found < <(compgen -f -- "${current#"$prefix"}") ;;
      :folders) mapfile -t found < <(compgen -d -- "${current#"$prefix"}") ;;
      *) COMPREPLY+=("${candidate#"$prefix"}"); continue ;;
    esac
    compopt -o filenames 2>/dev/null
    COMPREPLY+=("${found[@]}")
  done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
  [[ ${COMPREPLY[0]-} == *[=:] ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _moetune moetune
)script";

constexpr const char* kZsh = R"script(#compdef moetune
# zsh completion for moetune, as `moetune completion zsh` prints it
_moetune() {
  local -a lines open described
  local line text
  lines=("${(@f)$(${words[1]} __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for line in $lines; do
    text=${line%%$'\t'*}
    case $text in
      :files) _files ;;
      :folders) _files -/ ;;
      *[=:]) open+=("$text") ;;
      *) described+=("${text//:/\\:}:${line#*$'\t'}") ;;
    esac
  done
  (( $#open )) && compadd -S '' -- $open
  (( $#described )) && _describe moetune described
}
if [[ $funcstack[1] == _moetune ]]; then _moetune "$@"; else compdef _moetune moetune; fi
)script";

constexpr const char* kFish = R"script(# fish completion for moetune, as `moetune completion fish` prints it
function __moetune_candidates
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
        switch $line
            case ':files'
                __fish_complete_path (commandline -ct)
            case ':folders'
                __fish_complete_directories (commandline -ct)
            case '*'
                printf '%s\n' $line
        end
    end
end
complete -c moetune -f -a '(__moetune_candidates)'
)script";

constexpr std::pair<std::string_view, const char*> kScripts[] = {{"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}};

}  // namespace

std::string completion_script(const std::string& shell) {
  return find_by_name("shell", shell, kScripts, [](const auto& one) { return one.first; }).second;
}

}  // namespace moetune
