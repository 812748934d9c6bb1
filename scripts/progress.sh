# For setup, build and test: how far a long command is.
#
# with_progress LABEL LOG STEPS COMMAND...: runs COMMAND with its output in LOG. While it runs, stderr has a line with
# what STEPS prints and the time: one that is drawn anew each second on a terminal, else one every 20 seconds. STEPS is
# a function of the log and the seconds so far; it prints "DONE TOTAL LEFT", with LEFT in seconds or "-" if unknown, or
# nothing yet. Returns the status of COMMAND.

# The time left if every step takes as long as those so far did.
evenly() {
  local done=$1 total=$2 seconds=$3
  if [ "$done" -gt 0 ] && [ "$seconds" -ge 3 ]; then
    echo "$done $total $((seconds * (total - done) / done))"
  else
    echo "$done $total -"
  fi
}

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

progress_line() {
  local label=$1 log=$2 steps=$3 seconds=$4 done='' total='' left=''
  read -r done total left < <("$steps" "$log" "$seconds" 2>/dev/null) || true
  printf '%s: ' "$label"
  [ -z "$total" ] || printf '%s of %s steps, ' "$done" "$total"
  clock "$seconds"
  printf ' so far'
  [ "${left:--}" = - ] || { printf ', about ' && clock "$left" && printf ' left'; }
  printf '; log: %s' "$log"
}

show_progress() {
  local label=$1 log=$2 steps=$3 owner=$4 begin=$SECONDS seconds
  while sleep 1 && kill -0 "$owner" 2>/dev/null; do
    seconds=$((SECONDS - begin))
    if [ -t 2 ]; then
      printf '\r\033[K%.*s' "$((${COLUMNS:-$(tput cols 2>/dev/null || echo 100)} - 1))" \
        "$(progress_line "$label" "$log" "$steps" "$seconds")" >&2
    elif [ $((seconds % 20)) -eq 0 ]; then
      printf '%s\n' "$(progress_line "$label" "$log" "$steps" "$seconds")" >&2
    fi
  done
}

with_progress() {
  local label=$1 log=$2 steps=$3 status=0 shower
  shift 3
  mkdir -p "$(dirname "$log")"
  : >"$log"
  show_progress "$label" "$log" "$steps" $$ &
  shower=$!
  # Gone too if the command is interrupted; the command itself runs in front, where Ctrl-C reaches it.
  trap 'kill "$shower" 2>/dev/null || true' EXIT
  "$@" >>"$log" 2>&1 || status=$?
  end_progress "$shower"
  return "$status"
}

end_progress() {
  kill "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
  trap - EXIT
  [ ! -t 2 ] || printf '\r\033[K' >&2
}
