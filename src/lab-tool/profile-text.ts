import type { LabProfile, ProfiledKernel } from '../lab/types.ts';
import { formatCount, formatPercent, formatNumber, pluralize } from './figures.ts';
import type { SourceOrigin } from './local-kernels.ts';
import { printable } from '../terminal/printable.ts';
import type { OutputStyle } from '../terminal/style.ts';
import { table, type TableCell } from '../terminal/table.ts';
import { wrapText } from '../terminal/text.ts';

type Site = ProfiledKernel['sites'][number];

/** @param origin the author's file; without it, hints have line numbers alone */
export function profileLines(profile: LabProfile, look: OutputStyle, origin?: SourceOrigin): string[] {
  const { paint, width } = look;
  const columns = [
    { title: 'of a workgroup', minWidth: 20 },
    { title: 'workgroups', align: 'right' },
    { title: 'threads', align: 'right' },
    { title: 'ready', align: 'right' },
    { title: 'memory', align: 'right' },
    { title: 'fetches', align: 'right' },
    { title: 'reads needed', align: 'right' },
    { title: 'banks', align: 'right' },
    { title: 'barriers', align: 'right' },
    { title: 'lanes', align: 'right' },
    { title: 'flop/byte', align: 'right' },
  ] as const;
  const { flops, profile: own, builtin = [] } = profile;
  const overrides = Object.entries(profile.overrides).map(([name, value]) => `${name}=${value}`);
  const row = (kernel: ProfiledKernel): TableCell[] => [
    printable(kernel.name),
    String(kernel.workgroups),
    String(kernel.workgroup_size),
    formatPercent(kernel.occupancy),
    `${formatCount(kernel.workgroup_bytes)}B`,
    `${formatCount(kernel.fetched.reduce((sum, { bytes }) => sum + bytes, 0))}B`,
    formatPercent(neededFraction(kernel)),
    `${kernel.bank_conflict}-way`,
    formatNumber(kernel.barriers),
    formatPercent(kernel.active_lanes),
    formatNumber(flops / Math.max(1, kernel.fetched_bytes)),
  ];
  return [
    `${paint('strong', printable(profile.kernel))}  ${printable([profile.case, ...overrides].join(', '))}, emulated in subgroups of ${profile.lanes}`,
    '',
    ...table(columns, [row(own), ...builtin.map(row)], look),
    '',
    ...(profile.hints.length === 0
      ? ['no hints']
      : profile.hints.flatMap(({ code, message }) =>
          wrapText(`${paint('warn', code)}  ${printable(inFile(message, origin))}`, width, '    '),
        )),
    ...(origin ? ['', ...markedSource(own, origin, look)] : []),
    '',
    `from an emulation of ${pluralize(Math.min(2, own.workgroups), 'workgroup')}; times are measured by bench`,
  ];
}

/** Lines of the file instead of those of the kernel's source. */
const inFile = (message: string, origin: SourceOrigin | undefined): string =>
  message.replace(/\bline (\d+)/, (_, line: string) => `line ${Number(line) + (origin?.above ?? 0)}`);

/** Sectors that the lanes' bytes would fill over those that they touch. */
const neededFraction = ({
  reads: { needed_sectors: needed, touched_sectors: touched },
}: ProfiledKernel): number => (touched === 0 ? 1 : needed / touched);

/** The lines of the source that access memory or wait, with what they cost. */
function markedSource(
  { sites }: ProfiledKernel,
  { lines, above }: SourceOrigin,
  look: OutputStyle,
): string[] {
  const byLine = Map.groupBy(sites, ({ line }) => line + above);
  return [...byLine].flatMap(([line, list]) => [
    `${look.paint('dim', `${String(line).padStart(5)} | `)}${printable(lines[line - 1] ?? '').trimEnd()}`,
    ...list.map((site) => `      ${look.paint(isCostly(site) ? 'warn' : 'note', `^ ${siteText(site)}`)}`),
  ]);
}

const isCostly = (site: Site): boolean =>
  site.kind !== 'barrier' &&
  ((site.touched_sectors ?? 0) >= 2 * (site.needed_sectors ?? 0) + 1 || (site.bank_conflict ?? 1) >= 4);

function siteText(site: Site): string {
  if (site.kind === 'barrier') return `${formatNumber(site.requests)} x barrier`;
  const { kind, name, bytes, requests, active_lanes: active, bank_conflict: ways } = site;
  const cost =
    ways === undefined
      ? `${formatNumber(site.needed_sectors)} sectors needed, ${formatNumber(site.touched_sectors)} touched`
      : `${ways}-way bank conflict`;
  const lanes = active < 0.995 ? `, ${formatPercent(active)} of the lanes` : '';
  return `${formatNumber(requests)} x ${kind} ${printable(name)}, ${bytes} bytes a lane: ${ways === 1 ? 'no bank conflict' : cost}${lanes}`;
}
