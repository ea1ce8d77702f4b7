import { printable } from '../../terminal/printable.ts';
import type { OutputStyle, Style } from '../../terminal/style.ts';
import { table } from '../../terminal/table.ts';
import { benchSummary } from '../bench-text.ts';
import { formatAmount, formatDuration, pluralize } from '../figures.ts';
import type { SearchOutcome } from './run-search.ts';
import { type Attempt, type AttemptVerdict, benchedVerdicts } from './types.ts';
import { commandOf } from '../../terminal/program.ts';

const styleOf = (verdict: AttemptVerdict): Style =>
  verdict === 'faster' ? 'good' : (benchedVerdicts as readonly string[]).includes(verdict) ? 'note' : 'bad';
const wordsOf = (verdict: AttemptVerdict): string => verdict.replaceAll('_', ' ');

const amountOf = ({ ratio, low, high }: Attempt): string =>
  ratio === undefined || low === undefined || high === undefined ? '' : formatAmount(ratio, { low, high });

/** One line for an attempt that ended, with the reason of a bad end. */
export function attemptLine(attempt: Attempt, { paint }: OutputStyle): string {
  const { n, by, idea, verdict, findings, ratio, elapsed_ms: ms } = attempt;
  const why = ratio === undefined ? (findings[0]?.message ?? '') : amountOf(attempt);
  return `${String(n).padStart(3)}  ${paint(styleOf(verdict), wordsOf(verdict).padEnd(13))}  ${printable(by)}: ${printable(idea)}  ${paint('dim', `${printable(why).slice(0, 140)}  ${formatDuration(ms)}`)}`;
}

export function outcomeLines(
  { attempts, best, bench, verdict, before, isBetter, config, isInterrupted, problems }: SearchOutcome,
  { journal, op }: { readonly journal: string; readonly op: string },
  look: OutputStyle,
): string[] {
  const { paint } = look;
  const lines = [
    '',
    ...table(
      [
        { title: '', align: 'right' },
        { title: 'proposed by', minWidth: 10 },
        { title: 'idea', minWidth: 20 },
        { title: 'verdict' },
        { title: 'speed', align: 'right' },
      ],
      attempts.map((one) => [
        one === best || one.n === best?.n ? `* ${one.n}` : String(one.n),
        one.by,
        one.idea,
        [styleOf(one.verdict), wordsOf(one.verdict)] as const,
        amountOf(one),
      ]),
      look,
    ),
    '',
    ...problems.map((problem) => paint('warn', `! ${printable(problem)}`)),
  ];
  if (isInterrupted) return [...lines, `interrupted; the same command goes on (${printable(journal)})`];
  if (!best || !bench) return [...lines, `no kernel for ${printable(op)} was correct and could be measured`];
  return [
    ...lines,
    `best: ${best.n}, ${printable(best.idea)}, of ${pluralize(attempts.length, 'attempt')}`,
    ...benchSummary(bench, look),
    ...(isBetter === true
      ? []
      : [
          verdict !== 'faster'
            ? 'nothing was faster than the built-in kernels'
            : 'nothing was faster than what was bound before:',
        ].map((line) => paint('warn', line))),
    ...(isBetter !== true && verdict === 'faster' && before ? benchSummary(before, look) : []),
    config === undefined
      ? `no config is saved; --force saves the best kernel, and ${printable(journal)} has its source`
      : `saved as the config ${printable(config)}; bind it with: ${commandOf('host')} --gpu --kernels ${printable(config)}`,
  ];
}
