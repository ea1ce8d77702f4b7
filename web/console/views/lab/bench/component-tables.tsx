import { formatMs } from '../../../../ui/format.ts';
import { type Column, Table } from '../../../../ui/index.tsx';
import type { BenchResult } from './runs.ts';
import css from './bench.module.css';
import { formatShare, kernelName, slotOf } from '../graph/graph-model.ts';
import type { Component } from './roofline.ts';
import { formatFigure } from './verdict-text.ts';

/** The components of one slot and kernel in all layers. */
interface SlotGroup {
  readonly slot: string;
  readonly members: readonly Component[];
  /** The slowest one, whose rates and hint are shown for the group. */
  readonly slowest: Component;
  readonly ms: number;
  readonly builtinMs: number | undefined;
}

/** GPU time of a decoded token by component: layers combined, and each layer separately. */
export function ComponentTables({ result: { components } }: { result: BenchResult }) {
  const stepMs = components.reduce((sum, { gpu_ms: ms }) => sum + ms, 0);
  const groups = [
    ...Map.groupBy(components, ({ id, kernel }) => `${slotOf(id)} ${kernelName(kernel).name}`).values(),
  ]
    .map((members) => groupOf(members))
    .sort((a, b) => b.ms - a.ms);
  const share = (ms: number) => (stepMs === 0 ? '' : formatShare(ms / stepMs));
  const columns: readonly Column<SlotGroup>[] = [
    {
      key: 'slot',
      head: 'Component',
      cell: ({ slot, members }) => (
        <>
          <code>{slot}</code> {members.length > 1 && `(${members.length})`}
        </>
      ),
    },
    {
      key: 'kernel',
      head: 'Kernel',
      cell: ({ slowest }) => {
        const { name, isBuiltin } = kernelName(slowest.kernel);
        return isBuiltin ? name : <strong>lab: {name}</strong>;
      },
    },
    { key: 'ms', head: 'GPU time', number: true, cell: ({ ms }) => formatMs(ms) },
    {
      key: 'before',
      head: 'With built-ins',
      number: true,
      cell: ({ builtinMs }) => (builtinMs === undefined ? '' : formatMs(builtinMs)),
    },
    { key: 'share', head: 'Share', number: true, cell: ({ ms }) => share(ms) },
    { key: 'gbps', head: 'GB/s', number: true, cell: ({ slowest }) => formatFigure(slowest.gbps) },
    { key: 'gflops', head: 'GFLOP/s', number: true, cell: ({ slowest }) => formatFigure(slowest.gflops) },
    {
      key: 'peak',
      head: 'Share of roofline',
      number: true,
      cell: ({ slowest }) => formatShare(slowest.peak_fraction),
    },
  ];
  const hint: Column<SlotGroup> = {
    key: 'hint',
    head: 'Bottleneck',
    cell: ({ slowest }) => <span className={css['hint']}>{slowest.hint}</span>,
  };
  const perLayer = components.map((one) => ({ ...groupOf([one]), slot: one.id })).sort((a, b) => b.ms - a.ms);
  return (
    <>
      <Table
        caption="GPU time of a decoded token by component, layers combined, slowest first"
        rows={groups}
        keyOf={({ slot, slowest }) => `${slot} ${slowest.kernel}`}
        columns={[...columns, hint]}
      />
      <details>
        <summary>Each layer separately</summary>
        <Table
          caption="Every component, slowest first"
          rows={perLayer}
          keyOf={({ slot, slowest }) => `${slot} ${slowest.kernel}`}
          columns={columns}
        />
      </details>
    </>
  );
}

function groupOf(members: readonly Component[]): SlotGroup {
  const slowest = members.reduce((slowestSoFar, one) =>
    one.gpu_ms > slowestSoFar.gpu_ms ? one : slowestSoFar,
  );
  const before = members.flatMap(({ baseline_ms: ms }) => ms ?? []);
  return {
    slot: slotOf(slowest.id),
    members,
    slowest,
    ms: members.reduce((sum, { gpu_ms: ms }) => sum + ms, 0),
    builtinMs: before.length === 0 ? undefined : before.reduce((sum, ms) => sum + ms, 0),
  };
}
