#!/usr/bin/env bash
# The open measurements on a GPU, in steps of less than ten minutes each (see docs/gpu.md, "Open measurements"):
#
#     bash benchmarks/gpu.sh check
#     bash benchmarks/gpu.sh profile [DTYPE [BATCH]]
#     bash benchmarks/gpu.sh bench [DTYPE [BATCH]]
#
# The script reads graphs from graphs/DTYPE-BATCH/ and writes results to the folder $OUT (default: out/). Measurements
# of an earlier run that lie there or in measured/ are not repeated. The last command of a step is interrupted $LIMIT
# seconds after the step has begun (default: 540).
set -uo pipefail
cd "$(dirname "$0")/.."
step=${1:-check} dtype=${2:-f32} batch=${3:-1}
graphs=graphs/$dtype-$batch
limit=${LIMIT:-540}
mkdir -p "${OUT:=out}"
OUT=$(cd "$OUT" && pwd)
export PYTHONUNBUFFERED=1 TENSAT_DL_PROFILES=$OUT
# Packages that are not installed on the machine may lie in wheels/, as wheels of pure Python.
for wheel in "$PWD"/wheels/*.whl; do
  [ -f "$wheel" ] && export PYTHONPATH="$wheel${PYTHONPATH:+:$PYTHONPATH}"
done
[ -d measured ] && cp -n measured/*.json "$OUT"/
# The seconds that are left of the step, $1 at most. timeout takes 0 for no limit.
left() { local rest=$((limit - SECONDS)); echo $((rest < 1 || $1 < 1 ? 1 : $1 < rest ? $1 : rest)); }
# Interrupts the command after $1 seconds, like Ctrl-C: the command keeps its results so far. Twenty seconds later it is
# killed.
within() { timeout -s INT -k 20 "$(left "$1")" python3 -m tensat_dl "${@:2}"; }

# Times a graph of three operators. If this machine cannot measure, prints what it lacks and exits with 2.
within 120 time examples/tiny_share_input.tsr || exit
[ -d "$graphs" ] || { echo "error: no folder $graphs: write it with \`tensat-dl bench gpu --prepare\`" >&2; exit 2; }
device=$(python3 -c 'from tensat_dl.gpu.this_gpu import this_gpu; print(this_gpu().device)')
profile=$OUT/$device.profile.json
timeout 20 nvidia-smi

case $step in
  check) # tests of the kernels on the hardware, then a short run of each other step
    several=$(python3 -c 'import xdist; print("-n 12")' 2> /dev/null)
    TENSAT_DL_GPU_TESTS=1 timeout -k 20 "$(left 150)" python3 -m pytest -q --all $several -p no:cacheprovider --tb=short \
      tests/kernels/test_against_reference.py > "$OUT/tests.log" 2>&1
    tail -30 "$OUT/tests.log"
    within 90 profile "$graphs"/nasrnn.sigs.json -o "$profile"
    within 60 time "$graphs"/nasrnn.{original,paper,ours,fused}.tsr --json "$OUT/time.json"
    within 120 bench gpu nasrnn --graphs "$graphs" --dtype "$dtype" --batch "$batch" --torch eager,compile \
      --json "$OUT/check.json"
    ;;
  profile)
    within $((limit - SECONDS - 40)) profile "$graphs"/*.sigs.json -o "$profile" > "$OUT/profile.log" 2>&1
    tail -40 "$OUT/profile.log"
    within 30 costs "$profile" --json "$OUT/costs.json"
    ;;
  bench)
    within "$limit" bench gpu --graphs "$graphs" --dtype "$dtype" --batch "$batch" --patience 150 --resume \
      --json "$OUT/gpu-$dtype-$batch.json"
    ;;
  *)
    echo "error: no step \`$step\`: check, profile or bench" >&2
    exit 2
    ;;
esac
rm -f "$OUT"/*.lock
ls -l "$OUT"
