import type { LabGraph, LabParts, OpDescriptor } from '../lab/types.ts';
import { count, many, short } from './figures.ts';
import { groupByLayer } from './groups.ts';
import type { Look } from '../terminal/style.ts';
import { table, type TableCell } from '../terminal/table.ts';
import { printable } from '../terminal/printable.ts';

const sum = (values: readonly (number | null | undefined)[]): number =>
  values.reduce<number>((total, value) => total + (value ?? 0), 0);
/** For a built-in kernel only the file name: the variant is long, and shown by --json. */
function kernelCell(kernel: string): TableCell {
  const [, file] = /^builtin:([^?]+)/.exec(kernel) ?? [];
  return file === undefined ? ['good', kernel] : `built-in ${file}`;
}

export function opsLines(ops: readonly OpDescriptor[], look: Look): string[] {
  const textOf = (value: unknown) => (typeof value === 'string' ? value : '');
  const targetsOf = (value: unknown) => (Array.isArray(value) ? value.map(textOf).join(' ') : '');
  const rows = ops.map((each) => [each.op, textOf(each['summary']), targetsOf(each['targets'])]);
  return table([{ title: 'op' }, { title: 'summary', least: 20 }, { title: 'stubs' }], rows, look);
}

/** The graph, with the same node of all layers in one row. */
export function graphLines(graph: LabGraph, look: Look): string[] {
  const { nodes, spans } = graph;
  const groups = groupByLayer(nodes, (node) =>
    JSON.stringify([node.op, node.kernel, node.dtype, node.shape]),
  );
  const timed = nodes.some((node) => typeof node.gpu_ms === 'number');
  const rows = groups.map(({ pattern, items }) => {
    const [first] = items;
    return [
      pattern,
      first?.op ?? '',
      kernelCell(first?.kernel ?? ''),
      first?.dtype ?? '',
      many(sum(items.map((node) => node.flops))),
      many(sum(items.map((node) => node.bytes))),
      ...(timed ? [short(sum(items.map((node) => node.gpu_ms)))] : []),
    ];
  });
  const columns = [
    { title: 'nodes', least: 18 },
    { title: 'op', least: 10 },
    { title: 'kernel', least: 14 },
    { title: 'dtype' },
    { title: 'FLOP', align: 'right' },
    { title: 'bytes', align: 'right' },
    ...(timed ? [{ title: 'GPU ms', align: 'right' } as const] : []),
  ] as const;
  const spanRows = groupByLayer(spans, (span) => `${span.op} ${span.fused_kernel ?? ''}`).map(
    ({ pattern, items }) => {
      const [first] = items;
      const kernel = first?.fused_kernel;
      return [
        pattern,
        first?.op ?? '',
        kernel === undefined ? (['dim', 'separate nodes'] as const) : kernelCell(kernel),
      ];
    },
  );
  const units = new Set(nodes.map((node) => node.component)).size;
  return [
    `${look.paint('strong', printable(graph.model))}  ${count(nodes.length, 'node')} in ${count(units, 'dispatch', 'dispatches')}, ${count(spans.length, 'span')}; FLOP and bytes for one decoded token`,
    '',
    ...table(columns, rows, look),
    ...(spans.length === 0
      ? []
      : [
          '',
          ...table(
            [{ title: 'spans', least: 18 }, { title: 'op' }, { title: 'runs on', least: 14 }],
            spanRows,
            look,
          ),
        ]),
  ];
}

/** Slots, registered kernels, and bindings. */
export function partsLines(parts: LabParts, look: Look): string[] {
  const slots = parts.slots.map((slot) => [
    slot.slot,
    slot.op,
    kernelCell(slot.bound),
    slot.swappable ? slot.compatible.join(' ') || '-' : (['dim', 'fixed'] as const),
  ]);
  const kernels = (parts.kernels ?? []).map(({ name, op, state, digest }) => [
    name,
    op,
    [state === 'accepted' ? 'good' : state === 'unverified' ? 'warn' : 'bad', state] as const,
    digest.replace(/^(sha256:.{12}).+$/, '$1…'),
  ]);
  const bound = groupByLayer(
    parts.components.filter((component) => !component.kernel.startsWith('builtin:')),
    (component) => component.kernel,
  ).map(({ pattern, items }) => [pattern, kernelCell(items[0]?.kernel ?? ''), String(items.length)]);
  const section = (lines: readonly string[], some: boolean, none: string) =>
    some ? lines : [look.paint('dim', none)];
  return [
    ...table(
      [
        { title: 'slot', least: 12 },
        { title: 'op', least: 10 },
        { title: 'bound', least: 14 },
        { title: 'compatible', least: 10 },
      ],
      slots,
      look,
    ),
    '',
    ...section(
      table(
        [{ title: 'kernel', least: 12 }, { title: 'op' }, { title: 'state' }, { title: 'digest', least: 12 }],
        kernels,
        look,
      ),
      kernels.length > 0,
      'no kernel is registered',
    ),
    '',
    ...section(
      table(
        [
          { title: 'bound to', least: 18 },
          { title: 'kernel', least: 12 },
          { title: 'components', align: 'right' },
        ],
        bound,
        look,
      ),
      bound.length > 0,
      'only built-in kernels run',
    ),
  ];
}
