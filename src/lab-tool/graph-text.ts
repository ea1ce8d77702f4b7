import type { LabGraph, LabParts, OpDescriptor } from '../lab/types.ts';
import { pluralize, formatCount, formatNumber } from './figures.ts';
import { groupByLayer } from './layer-groups.ts';
import type { OutputStyle } from '../terminal/style.ts';
import { table, type TableCell } from '../terminal/table.ts';
import { printable } from '../terminal/printable.ts';

const sum = (values: readonly (number | null | undefined)[]): number =>
  values.reduce<number>((total, value) => total + (value ?? 0), 0);
/** For a built-in kernel only the file name: the variant is long, and shown by --json. */
function kernelCell(kernel: string): TableCell {
  const [, file] = /^builtin:([^?]+)/.exec(kernel) ?? [];
  return file === undefined ? ['good', kernel] : `built-in ${file}`;
}

export function opsLines(ops: readonly OpDescriptor[], look: OutputStyle): string[] {
  const textOf = (value: unknown) => (typeof value === 'string' ? value : '');
  const targetsOf = (value: unknown) => (Array.isArray(value) ? value.map(textOf).join(' ') : '');
  const rows = ops.map((each) => [each.op, textOf(each['summary']), targetsOf(each['targets'])]);
  return table([{ title: 'op' }, { title: 'summary', minWidth: 20 }, { title: 'stubs' }], rows, look);
}

/** The graph, with the same node of all layers in one row. */
export function graphLines(graph: LabGraph, look: OutputStyle): string[] {
  const { nodes, spans } = graph;
  const groups = groupByLayer(nodes, (node) =>
    JSON.stringify([node.op, node.kernel, node.dtype, node.shape]),
  );
  const hasTimes = nodes.some((node) => typeof node.gpu_ms === 'number');
  const rows = groups.map(({ pattern, items }) => {
    const [first] = items;
    return [
      pattern,
      first?.op ?? '',
      kernelCell(first?.kernel ?? ''),
      first?.dtype ?? '',
      formatCount(sum(items.map((node) => node.flops))),
      formatCount(sum(items.map((node) => node.bytes))),
      ...(hasTimes ? [formatNumber(sum(items.map((node) => node.gpu_ms)))] : []),
    ];
  });
  const columns = [
    { title: 'nodes', minWidth: 18 },
    { title: 'op', minWidth: 10 },
    { title: 'kernel', minWidth: 14 },
    { title: 'dtype' },
    { title: 'FLOP', align: 'right' },
    { title: 'bytes', align: 'right' },
    ...(hasTimes ? [{ title: 'GPU ms', align: 'right' } as const] : []),
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
  const dispatches = new Set(nodes.map((node) => node.component)).size;
  return [
    `${look.paint('strong', printable(graph.model))}  ${pluralize(nodes.length, 'node')} in ${pluralize(dispatches, 'dispatch', 'dispatches')}, ${pluralize(spans.length, 'span')}; FLOP and bytes for one decoded token`,
    '',
    ...table(columns, rows, look),
    ...(spans.length === 0
      ? []
      : [
          '',
          ...table(
            [{ title: 'spans', minWidth: 18 }, { title: 'op' }, { title: 'runs on', minWidth: 14 }],
            spanRows,
            look,
          ),
        ]),
  ];
}

/** Slots, registered kernels, and bindings. */
export function partsLines(parts: LabParts, look: OutputStyle): string[] {
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
  const section = (lines: readonly string[], hasRows: boolean, emptyText: string) =>
    hasRows ? lines : [look.paint('dim', emptyText)];
  return [
    ...table(
      [
        { title: 'slot', minWidth: 12 },
        { title: 'op', minWidth: 10 },
        { title: 'bound', minWidth: 14 },
        { title: 'compatible', minWidth: 10 },
      ],
      slots,
      look,
    ),
    '',
    ...section(
      table(
        [
          { title: 'kernel', minWidth: 12 },
          { title: 'op' },
          { title: 'state' },
          { title: 'digest', minWidth: 12 },
        ],
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
          { title: 'bound to', minWidth: 18 },
          { title: 'kernel', minWidth: 12 },
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
