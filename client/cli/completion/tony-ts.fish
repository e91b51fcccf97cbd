# Completion of tony-ts in fish; `tony-ts completion fish` prints this script. To install it: tony-ts completion fish > ~/.config/fish/completions/tony-ts.fish
# `tony-ts completion --words` receives the words up to the cursor. Its first line is `words`, `files` or `folders`. After `words`, each
# line is a candidate, with its description after a tab.
function __tony_ts
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l command $words[1]
  set -e words[1]
  set -l lines ($command completion --words $words "$current" 2>/dev/null)
  set -l kind $lines[1]
  set -e lines[1]
  switch "$kind"
    case files
      __fish_complete_path (string replace -r -- '^--[^=]*=' '' "$current")
    case folders
      __fish_complete_directories (string replace -r -- '^--[^=]*=' '' "$current")
    case words
      printf '%s\n' $lines
  end
end
complete -c tony-ts -e
complete -c tony-ts -f -k -a '(__tony_ts)'
