# Completion of tony-ts in bash; `tony-ts completion bash` prints this script. To have it always: echo 'source <(tony-ts completion bash)' >> ~/.bashrc
# `tony-ts completion --words` gets the words up to the cursor and answers `words`, `files` or `folders`; for words then a candidate
# a line, with its description after a tab.
#
# bash splits words at the characters of COMP_WORDBREAKS too, `:` and `=` among them, and replaces only what comes after the last one: words are
# put together again here, and what candidates begin with is taken off again. Descriptions only where bash lists without inserting anything.
# Nothing that bash 3.2 of macOS lacks is needed.
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
