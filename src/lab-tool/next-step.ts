/** What to do after a bench, by its result. */
import { maxTimedTokens } from '../lab/bench/effort.ts';
import { decisiveHalfWidth, minRounds } from '../lab/bench/verdict.ts';
import type { BenchResult } from '../lab/types.ts';
import { decodeOf, measuredKernels } from './bench-text.ts';
import { formatPercent } from './figures.ts';
import { printable } from '../terminal/printable.ts';
import type { OutputStyle } from '../terminal/style.ts';
import { wrapText } from '../terminal/text.ts';
import { commandOf } from '../terminal/program.ts';

const benchCommand = `${commandOf('lab')} bench`;
/** Limit of a request. */
const maxRounds = 1000;
const minEffect = 0.01;

/** @param flags those of the bench, except `--rounds` */
export const nextStepLines = (
  result: BenchResult,
  flags: readonly string[],
  { width }: OutputStyle,
): string[] => wrapText(printable(nextStep(result, [benchCommand, ...flags].join(' '))), width, '  ');

function nextStep(result: BenchResult, command: string): string {
  const { prefill, decode, effect, beside = [] } = result;
  const kernel = slowestKernel(result);
  if (kernel === undefined)
    return `next: ${commandOf('lab')} bind KERNEL 'GLOB', then ${command}: nothing is bound, so this shows the noise of the machine`;
  const all = decodeOf(result);
  const rows = [all, ...decode, prefill];
  const has = (verdict: BenchResult['verdict']) => rows.some((row) => row.verdict === verdict);
  if (has('suspect'))
    return `next: ${commandOf('lab')} parity, which compares ${kernel} with its oracle on the whole model: it skips work, or computes something else`;
  const decodeVerdicts = new Set(decode.map(({ verdict }) => verdict));
  if (decodeVerdicts.has('faster') && decodeVerdicts.has('slower')) {
    const slower = decode.find(({ verdict }) => verdict === 'slower');
    return `next: ${commandOf('lab')} profile ${kernel}: it is slower at ${slower?.context} tokens of context and faster at others`;
  }
  if (has('slower')) {
    const isPrefill = all.verdict !== 'slower' && !decodeVerdicts.has('slower');
    return `next: ${commandOf('lab')} profile ${kernel}${isPrefill ? ' --prefill' : ''}, which shows the lines that cost most`;
  }
  if (has('faster')) {
    const evidence =
      beside.length === 0
        ? 'which keeps these bindings with this bench as evidence'
        : `which keeps all bindings; run ${benchCommand} before, so that the config has a bench of them`;
    return `next: ${commandOf('lab')} save ${kernel}, ${evidence}`;
  }
  if (all.verdict === 'inconclusive') return narrowing(result, command);
  const smaller = Math.max(minEffect, Number((effect / 3).toPrecision(1)));
  return `next: ${command.replace(/ --effect \S+/, '')} --effect ${smaller} looks for a difference of ${formatPercent(smaller)}, or ${commandOf('lab')} profile ${kernel} for what to change`;
}

/** How many rounds make the interval as narrow as the effect needs; its width falls with the square root of them. */
function narrowing(
  { rounds, effect, ratio_ci95: [low, high], budget }: BenchResult,
  command: string,
): string {
  const halfWidth = Math.log(high / low) / 2;
  const needed = Math.ceil(rounds * (halfWidth / decisiveHalfWidth(effect)) ** 2);
  const tokens = 3 * (budget.prompt_tokens + budget.contexts.length * budget.new_tokens.least);
  const most = Math.min(maxRounds, Math.floor(maxTimedTokens / tokens));
  const shown = `a difference of ${formatPercent(effect)}`;
  const count = Math.max(minRounds, 10 * Math.ceil(Math.max(needed, rounds + 1) / 10));
  if (count > most) {
    const visible = Math.exp(2.6 * halfWidth) - 1;
    return `next: ${command} on a quieter machine: in this noise ${shown} needs about ${needed} rounds, and ${rounds} show ${formatPercent(visible)} or more`;
  }
  return `next: ${command} --rounds ${count}, about as many as ${shown} needs in this noise`;
}

/** The measured kernel with the most GPU time. */
function slowestKernel(result: BenchResult): string | undefined {
  const timeOf = (name: string) =>
    result.components.reduce(
      (sum, { kernel, gpu_ms: ms }) => sum + (kernel.split(' + ').includes(name) ? ms : 0),
      0,
    );
  return measuredKernels(result).toSorted((a, b) => timeOf(b) - timeOf(a))[0];
}
