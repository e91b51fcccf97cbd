# Completion of tony-ts in bash; `tony-ts completion bash` prints this script. To install it: echo 'source <(tony-ts completion bash)' >> ~/.bashrc
# `tony-ts completion --words` receives the words up to the cursor. Its first line is `words`, `files` or `folders`. After `words`, each
# line is a candidate, with its description after a tab.
#
# bash also splits words at the characters in COMP_WORDBREAKS, such as `:` and `=`, and replaces only the text after the last of them.
# Therefore, this script joins the parts into whole words, and removes the text before the last separator from the candidates. It adds
# descriptions only when bash lists candidates without inserting one. The script runs in bash 3.2, the version in macOS.
_tony_ts() {
  local rest="${COMP_LINE:0:COMP_POINT}" part line kind='' current='' prefix='' break i
  local -a words=() values=() shown=()
  COMPREPLY=()
  for ((i = 0; i <= COMP_CWORD; i++)); do
    part="${COMP_WORDS[i]}"
    if [[ $i -eq 0 || "$rest" == [[:space:]]* || -z "$rest" ]]; then
      while [[ "$rest" == [[:space:]]* ]]; do rest="${rest:1}"; done
      words+=('')
    fi
    if [[ "${rest:0:${#part}}" != "$part" ]]; then part="$rest"; fi
    words[${#words[@]}-1]+="$part"
    rest="${rest:${#part}}"
  done
  current="${words[${#words[@]}-1]}"
  while IFS= read -r line; do
    if [[ -z "$kind" ]]; then kind="$line"; continue; fi
    if [[ "${line%%$'\t'*}" == "$current"* ]]; then values+=("${line%%$'\t'*}"); shown+=("$line"); fi
  done < <("${words[0]}" completion --words "${words[@]:1}" 2>/dev/null)
  if [[ "$kind" == files || "$kind" == folders ]]; then
    if [[ "$current" == --*=* ]]; then current="${current#*=}"; fi
    compopt -o filenames 2>/dev/null
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
      if [[ "$kind" == files ]]; then compgen -f -- "$current"; else compgen -d -- "$current"; fi
    )
    return 0
  fi
  for break in : =; do
    if [[ "$COMP_WORDBREAKS" == *"$break"* && "$current" == *"$break"* ]]; then
      part="${current%"$break"*}$break"
      if [[ ${#part} -gt ${#prefix} ]]; then prefix="$part"; fi
    fi
  done
  for ((i = 0; i < ${#values[@]}; i++)); do
    line="${values[i]#"$prefix"}"
    if [[ ${#values[@]} -gt 1 && "$COMP_TYPE" == 63 && "${shown[i]}" == *$'\t'* ]]; then
      line="$line  (${shown[i]#*$'\t'})"
    fi
    COMPREPLY+=("$line")
  done
}
complete -o nosort -F _tony_ts tony-ts 2>/dev/null || complete -F _tony_ts tony-ts
