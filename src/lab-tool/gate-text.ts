import type { CaseVerdict, KernelRegistrationReport, StageName, TunedShape } from '../lab/types.ts';
import { pluralize, formatAmount, formatError, formatNumber, formatDuration } from './figures.ts';
import { findingLines } from './findings-text.ts';
import type { GateOutcome } from './register-kernel.ts';
import type { OutputStyle } from '../terminal/style.ts';
import { table } from '../terminal/table.ts';
import { printable } from '../terminal/printable.ts';
import { wrapText } from '../terminal/text.ts';

const stages: readonly StageName[] = ['parse', 'interface', 'safety', 'pipeline', 'parity'];

/** One line with a check mark or cross for each stage; stages that did not run have a dot. */
export function stageLine(report: KernelRegistrationReport, { paint }: OutputStyle): string {
  const reached = new Map(report.stages.map((stage) => [stage.stage, stage.ok]));
  return stages
    .map((stage) => {
      const ok = reached.get(stage);
      if (ok === undefined) return paint('dim', `· ${stage}`);
      return ok ? `${paint('good', '✓')} ${stage}` : `${paint('bad', '✗')} ${paint('bad', stage)}`;
    })
    .join('  ');
}

/** `✓ my_norm (rms_norm) accepted in 212 ms` */
export function verdictLine(outcome: GateOutcome, { paint }: OutputStyle): string {
  const { file, kernel, op, accepted, report } = outcome;
  const name = kernel === file ? file : `${file}  ${kernel}${op === undefined ? '' : ` (${op})`}`;
  const result = report === undefined ? 'not sent' : accepted ? 'accepted' : 'rejected';
  const unverifiedNote = report?.unverified
    ? paint('warn', ', unverified: not compared with its oracle')
    : '';
  const duration = report === undefined ? '' : ` in ${formatDuration(report.elapsed_ms)}`;
  const mark = accepted ? paint('good', '✓') : paint('bad', '✗');
  return `${mark} ${paint('strong', printable(name))}  ${paint(accepted ? 'good' : 'bad', result)}${unverifiedNote}${duration}`;
}

/** The complete gate result of a kernel. */
export function outcomeLines(outcome: GateOutcome, look: OutputStyle): string[] {
  const { report } = outcome;
  return [
    ...findingsOf(outcome, look),
    verdictLine(outcome, look),
    ...(report === undefined
      ? []
      : [`  ${stageLine(report, look)}`, ...parityLines(report, look), ...tuningLines(report, look)]),
  ];
}

/** Compact form for a screen with several kernels: one line for parity unless it failed. */
export function compactLines(outcome: GateOutcome, look: OutputStyle): string[] {
  const { report } = outcome;
  const parity = report?.parity ?? [];
  const failed = parity.filter((verdict) => !verdict.ok);
  const wrongCases = parity.filter(failedByValue);
  const worst = parity.reduce((most, verdict) => Math.max(most, verdict.nmse ?? Infinity), 0);
  const summary =
    parity.length === 0
      ? ''
      : `  ${parity.length - failed.length} of ${pluralize(parity.length, 'case')}, worst nmse ${formatError(worst)}, limit ${formatError(report?.tolerance?.nmse)}`;
  return [
    verdictLine(outcome, look),
    ...(report === undefined ? [] : [`  ${stageLine(report, look)}`]),
    ...(summary === '' ? [] : [`  ${look.paint('dim', summary.trim())}`]),
    ...wrongCases.slice(0, 3).map((verdict) => `  ${worstText(verdict, look)}`),
    ...findingsOf(outcome, look),
  ];
}

const findingsOf = ({ findings, lines }: GateOutcome, look: OutputStyle): string[] =>
  findings.flatMap((finding) => findingLines(finding, lines.get(finding.file), look));

function parityLines(
  { parity = [], tolerance, seed }: KernelRegistrationReport,
  look: OutputStyle,
): string[] {
  if (parity.length === 0) return [];
  const { paint } = look;
  const rows = parity.map((verdict) => [
    verdict.ok ? (['good', '✓'] as const) : (['bad', '✗'] as const),
    verdict.case,
    verdict.ok ? formatError(verdict.nmse) : (['bad', formatError(verdict.nmse)] as const),
    formatError(verdict.max_abs),
    formatError(tolerance?.nmse),
    verdict.builtin === undefined ? '-' : formatError(verdict.builtin.nmse),
  ]);
  const columns = [
    { title: '' },
    { title: 'case', minWidth: 16 },
    { title: 'nmse', align: 'right' },
    { title: 'max abs', align: 'right' },
    { title: 'nmse limit', align: 'right' },
    { title: 'built-in nmse', align: 'right' },
  ] as const;
  const notes = [
    ...(tolerance === undefined
      ? []
      : [`${tolerance.mode}${tolerance.scale === 1 ? '' : `, tolerance scale ${tolerance.scale}`}`]),
    ...(seed === undefined ? [] : [`seed ${seed}`]),
  ];
  return [
    ...table(columns, rows, look, '  '),
    ...parity.filter(failedByValue).map((verdict) => `  ${worstText(verdict, look)}`),
    ...(notes.length === 0 ? [] : [paint('dim', `  ${notes.join(', ')}`)]),
  ];
}

/** Whether the outputs of a case are wrong. A case can also fail for other reasons; then its worst element misleads. */
const failedByValue = ({ ok, worst }: CaseVerdict): boolean =>
  !ok && formatValue(worst.expected) !== formatValue(worst.got);

function worstText({ case: name, worst }: CaseVerdict, { paint }: OutputStyle): string {
  const { output, index, expected, got } = worst;
  return `${paint('bad', '✗')} ${printable(name)}: worst at ${printable(output)}[${index}], expected ${formatValue(expected)}, got ${formatValue(got)}`;
}

const formatValue = (value: number | null): string =>
  value === null ? 'not finite' : String(Number(value.toPrecision(6)));

function tuningLines({ tuning = [] }: KernelRegistrationReport, look: OutputStyle): string[] {
  if (tuning.length === 0) return [];
  const rows = tuning.map((tuned: TunedShape) => [
    tuned.shape,
    formatOverrides(tuned.best),
    formatNumber(tuned.best_ms),
    formatNumber(tuned.builtin_ms),
    String(tuned.tried.length),
  ]);
  const columns = [
    { title: 'tuned for', minWidth: 16 },
    { title: 'kept' },
    { title: 'ms', align: 'right' },
    { title: 'built-in ms', align: 'right' },
    { title: 'tried', align: 'right' },
  ] as const;
  return [
    ...table(columns, rows, look, '  '),
    ...tuning
      .flatMap(fastestSentence)
      .flatMap((sentence) => wrapText(printable(sentence), look.width - 2, '  '))
      .map((line) => `  ${line}`),
  ];
}

const formatOverrides = (overrides: TunedShape['best']): string =>
  Object.entries(overrides)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');

/** Why the fastest combination is kept, or is not. */
function fastestSentence({ shape, best, default: standard = {}, fastest }: TunedShape): string[] {
  if (!fastest) return [];
  const name = formatOverrides(fastest.overrides);
  const amount = `${formatAmount(fastest.ratio, fastest.ci95)} against the default ${formatOverrides(standard)}`;
  return [
    formatOverrides(best) === name
      ? `${name} is kept for ${shape}: ${amount}`
      : `${name} had the shortest time for ${shape}, but ${amount} is not beyond the noise: the default is kept`,
  ];
}
