#compdef tony-ts
# Completion of tony-ts in zsh; `tony-ts completion zsh` prints this script. To install it: echo 'source <(tony-ts completion zsh)' >> ~/.zshrc (after compinit)
# `tony-ts completion --words` receives the words up to the cursor. Its first line is `words`, `files` or `folders`. After `words`, each
# line is a candidate, with its description after a tab.
_tony_ts() {
  local line value kind
  local -a lines described
  lines=("${(@f)$("${(Q)words[1]}" completion --words "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  kind="${lines[1]}"
  case "$kind" in
    files) compset -P '--*='; _files ;;
    folders) compset -P '--*='; _files -/ ;;
    words)
      for line in "${(@)lines[2,-1]}"; do
        value="${line%%$'\t'*}"
        if [[ "$line" == *$'\t'* ]]; then described+=("${value//:/\\:}:${line#*$'\t'}"); else described+=("${value//:/\\:}"); fi
      done
      _describe -V 'tony-ts' described ;;
  esac
}
if [[ "${funcstack[1]}" == _tony_ts ]]; then _tony_ts "$@"; else compdef _tony_ts tony-ts; fi
