# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Completion of Baton's tools for bash, of version 4.4 or newer: their options, and values that are fixed. It runs no
# command and needs no other completion. Functions set variables of their callers, which these declare.

# The options of TOOL, in `options`. Those of a cache are alike in two tools.
_baton_options() {
    local cache='--model --layers --dtype --block-tokens --layout --kv --order'
    case $1 in
    batonrun)
        options='--prefill --decode -x --timeout --survive --metrics --trace --launcher --mpirun --script --host'
        options+=' --hostfile'
        options+=' --topology --network --costs --cores-per-rank --gpus-per-rank --spread --pack --together --apart --straddle'
        options+=' --oversubscribe --model --dtype --tokens --output-tokens --inside --pairs --dot --svg --explain --check -n'
        options+=' --dry-run --version -h --help --'
        ;;
    baton-top) options='--file --interval --once --version --help' ;;
    baton-info) options='--check --json --mpirun --version -h --help' ;;
    baton-plan)
        options="--prefill --decode --ranks-per-node $cache --prefill-cache --decode-cache --tokens --held --mode --rank"
        options+=' --json --dot --svg --cost --version --help'
        ;;
    baton-replay)
        options="--trace --requests --pairs --speed --deadline-ms --inflight --busy --mode --held --prefix-cache"
        options+=" --progress --stream --prefill-tokens-per-s --chunk-tokens $cache --pool --require-path --sabotage --timeout-ms --seed --json --version --help"
        ;;
    baton-serve)
        options='--trace --requests --scale --speed --abort --layers --heads --kv-heads --head-size --ffn --vocab --seed'
        options+=' --block-tokens --pool --layout --kv --order --memory --step-tokens --running --prefix --mode --stream'
        options+=' --timeout-ms --patience-ms --measure --undivided --output --sabotage --version --help'
        ;;
    baton-bench)
        options='--block --batch --blocks --regions --pool --iters --transfers --seconds --seed --want-ms --stop-engine'
        options+=' --stop-seconds --load --stop-engines --network --with --state --from --memory --verdicts --busy --pin --format --csv --table --json --version --help'
        ;;
    esac
}

# What follows OPTION of TOOL, in `kind`: nothing, a file, a variable, a word of `choices`, or a value of one's own.
# With sides=yes there may be a word for each side, a colon between them.
_baton_value() {
    kind=own choices='' sides=no
    case $1:$2 in
    *:--help | *:--version | *:-h | *:-n | *:--dry-run | *:--survive | *:--busy | *:--cost | *:--pin | *:--csv | *:--table | *:-- | \
        baton-plan:--json | baton-info:--json | baton-top:--once | *:--check | *:--spread | *:--pack | *:--together | *:--apart | *:--straddle | *:--oversubscribe | \
        *:--explain | *:--undivided) kind=nothing ;;
    *:--json | *:--dot | *:--svg | *:--trace | *:--metrics | *:--file | *:--prefill-cache | *:--decode-cache | *:--hostfile | *:--topology | \
        *:--network | *:--costs | *:--pairs | *:--mpirun | *:--output)
        kind='file'
        ;;
    *:-x) kind=variable ;;
    *:--model) choices='llama3-8b llama3-70b qwen3-32b deepseek-v3 gpt-oss-120b nemotron-h-8b' ;;
    *:--dtype) choices='bf16 fp8 fp32' ;;
    *:--launcher) choices='openmpi prrte hydra srun' ;;
    *:--script) choices='slurm pbs' ;;
    *:--layout) choices='hnd nhd' sides=yes ;;
    *:--kv) choices='separate block fused' sides=yes ;;
    *:--order) choices='layer block' sides=yes ;;
    *:--mode) choices='pull push' ;;
    *:--progress) choices='thread caller' ;;
    baton-serve:--stream) choices='none layers chunks both' ;;
    *:--stream) choices='layers chunks both' ;;
    *:--memory) choices='slab private mapped' sides=yes ;;
    *:--prefix) choices='on off' ;;
    baton-serve:--sabotage) choices='flip lose' ;;
    *:--require-path) choices='shm rma' ;;
    *:--format) choices='table csv osu' ;;
    *:--state) choices='asleep polled streak spinning busy all' ;;
    *:--from) choices='want offer ready all' ;;
    *:--memory) choices='slab private mapped' ;;
    *:--sabotage) choices='flip head stale short late' ;;
    esac
    [[ -z $choices ]] || kind=word
    [[ $1:$2 != baton-plan:--model && $1:$2 != baton-plan:--dtype ]] || sides=yes
}

# The words of the line up to the cursor, in `words`: what COMP_WORDBREAKS cuts apart (--layout=hnd:nhd) is one again.
_baton_words() {
    local line=${COMP_LINE:0:COMP_POINT} blanks word i
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        blanks=${line%%[![:blank:]]*}
        line=${line#"$blanks"}
        word=${COMP_WORDS[i]}
        ((i < COMP_CWORD)) || word=$line # without what is behind the cursor
        line=${line#"$word"}
        if [[ $i -gt 0 && -z $blanks ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
    done
}

# Adds what `compgen ARGS` finds for the word TEXT, BEFORE in front of each. Of that readline has `shown` letters already,
# which it does not want again.
_baton_add() { # BEFORE TEXT ARGS...
    local before=$1 text=$2 found
    shift 2
    while IFS= read -r found; do
        found=$before$found
        COMPREPLY+=("${found:shown}")
    done < <(compgen "$@" -- "$text")
}

# The value of an option. BEFORE is what of the word stands in front of it: "--layout=", say.
_baton_complete_value() { # TOOL OPTION BEFORE TEXT
    local kind choices sides before=$3 text=$4
    _baton_value "$1" "$2"
    case $kind in
    file)
        compopt -o filenames
        _baton_add "$before" "$text" -f
        ;;
    variable)
        [[ $text == *=* ]] || _baton_add "$before" "$text" -e
        ;;
    word)
        if [[ $sides = yes && $text == *:* ]]; then
            before+=${text%%:*}:
            text=${text#*:}
        fi
        _baton_add "$before" "$text" -W "$choices"
        ;;
    esac
}

# Words AT and further are the arguments of TOOL; the last one is completed. For a tool that takes a word that is no
# option, its place is in `operand` (0: none is there yet).
_baton_arguments() { # TOOL AT
    local tool=$1 at=$2 last=$((${#words[@]} - 1)) options kind choices sides operand=0
    local current=${words[last]}
    while ((at < last)); do
        if [[ $tool = batonrun && ${words[at]} = -- ]]; then
            operand=$((at + 1))
            break
        elif [[ ${words[at]} == -* ]]; then
            _baton_value "$tool" "${words[at]}"
            if [[ $kind != nothing && ${words[at]} != *=* ]]; then
                ((at++))
                if ((at == last)); then
                    _baton_complete_value "$tool" "${words[at - 1]}" '' "$current"
                    return
                fi
            fi
        else
            operand=$at
            [[ $tool != batonrun ]] || break
        fi
        ((at++))
    done
    _baton_options "$tool"
    if [[ $tool = batonrun && $operand -gt 0 ]]; then
        _baton_program "$operand"
    elif [[ $current == --*=* && $tool != batonrun ]]; then
        _baton_complete_value "$tool" "${current%%=*}" "${current%%=*}=" "${current#*=}"
    elif [[ $current == -* ]]; then
        _baton_add '' "$current" -W "$options"
    elif [[ $tool = batonrun ]]; then
        [[ -n $current ]] || _baton_add '' '' -W "$options baton-replay baton-serve baton-bench"
        [[ -z $current ]] || _baton_program "$last"
    elif [[ $tool = baton-bench && $operand -eq 0 ]]; then
        _baton_add '' "$current" -W 'pull push latency submit memory handshake shapes fairness distances wrapped regions
            fanout incast allpairs interference idle scale'
    elif [[ -z $current ]]; then
        _baton_add '' '' -W "$options"
    fi
}

# The program that batonrun starts, which is word AT, or its arguments.
_baton_program() { # AT
    local last=$((${#words[@]} - 1))
    local program=${words[$1]##*/}
    if (($1 == last)); then
        compopt -o filenames
        _baton_add '' "${words[last]}" -c -W 'baton-replay baton-serve baton-bench'
        _baton_add '' "${words[last]}" -d
        return
    fi
    case $program in
    baton-info | baton-top | baton-plan | baton-replay | baton-serve | baton-bench) _baton_arguments "$program" $(($1 + 1)) ;;
    *) compopt -o default ;; # of another program: files
    esac
}

# By readline's word `$2` it is known how much of the last word it has in front of that.
_baton() { # COMMAND WORD
    local words word=${2#[\"\']} shown
    COMPREPLY=()
    _baton_words
    shown=${words[${#words[@]} - 1]#[\"\']} # an open quote is no part of it
    words[${#words[@]} - 1]=$shown
    shown=${shown%"$word"}
    shown=${#shown}
    _baton_arguments "${1##*/}" 1
}

complete -F _baton batonrun baton-info baton-top baton-plan baton-replay baton-serve baton-bench
