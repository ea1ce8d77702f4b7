/** What the lab of the console draws: the folded graph, its layout, the rounds and the roofline. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { alignedData, sortData } from '../../web/ui/plot/plot-options.ts';
import { roundSelections, ratiosOf } from '../../web/console/views/lab/bench/rounds.ts';
import { rooflineOf } from '../../web/console/views/lab/bench/roofline.ts';
import { type Item, layoutGraph, type Rect } from '../../web/console/views/lab/graph/layout.ts';
import {
  foldGraph,
  kernelName,
  kernelsOf,
  type LabGraph,
  layersOf,
  timesOf,
} from '../../web/console/views/lab/graph/graph-model.ts';

/** A residual model with that many layers; `ms` by dispatch. */
function graphOf(
  layers: number,
  ms?: (component: string) => number,
  kernel = 'builtin:matmul.wgsl?WG=32',
): LabGraph {
  const nodes: LabGraph['nodes'] = [];
  const edges: LabGraph['edges'] = [];
  const node = (id: string, component: string, from: readonly string[]) => {
    const measured = ms ? { gpu_ms: ms(component) } : {};
    const about = { op: 'matmul', slot: id, dtype: 'q8_0', shape: ['tokens', 64], flops: 1, bytes: 1 };
    nodes.push({ id, component, kernel, ...about, ...measured });
    for (const source of from)
      edges.push({ from: source, to: id, tensor: source, dtype: 'f32', shape: ['tokens', 64] });
    return id;
  };
  let stream = node('embed', 'embed', []);
  for (let layer = 0; layer < layers; layer++) {
    const at = `layers.${layer}.`;
    const norm = node(`${at}norm`, `${at}qkv`, [stream]);
    const [q, k] = ['q', 'k'].map((name) => node(`${at}${name}`, `${at}qkv`, [norm]));
    const attend = node(`${at}attend`, `${at}attend`, [q ?? '', k ?? '']);
    stream = node(`${at}add`, `${at}add`, [attend, stream]);
  }
  node('logits', 'logits', [stream]);
  return { model: 'm', nodes, edges, spans: [] };
}

describe('the displayed graph', () => {
  it('counts the time of a dispatch once, for any number of nodes', () => {
    const times = timesOf(graphOf(2, (component) => (component.endsWith('qkv') ? 3 : 1)));
    expect(times.totalMs).toBe(3 + 3 + 6);
    expect(times.units.get('layers.1.qkv')).toMatchObject({ ms: 3, share: 0.25 });
    expect(times.units.get('layers.1.qkv')?.nodes).toHaveLength(3);
    expect(times.maxShare).toBe(0.25);
    expect(timesOf(graphOf(2))).toMatchObject({ totalMs: 0, isMeasured: false });
    expect(timesOf(graphOf(1, () => 0)).units.get('embed')).toMatchObject({ ms: 0, share: 0 });
  });

  it('folds the layers before and after the open layer, and all layers when none is open', () => {
    const graph = graphOf(5, () => 1);
    const times = timesOf(graph);
    expect(layersOf(graph)).toEqual([0, 1, 2, 3, 4]);
    const ranges = (open: number | undefined) =>
      foldGraph(graph, times, open).folds.map(({ first, last, nodes, ms }) => [first, last, nodes, ms]);
    expect(ranges(2)).toEqual([
      [0, 1, 10, 6],
      [3, 4, 10, 6],
    ]);
    expect(ranges(0)).toEqual([[1, 4, 20, 12]]);
    expect(ranges(4)).toEqual([[0, 3, 20, 12]]);
    expect(ranges(undefined)).toEqual([[0, 4, 25, 15]]);
    // A layer from an old link that this model does not have.
    expect(ranges(9)).toEqual([[0, 4, 25, 15]]);
    expect(foldGraph(graph, times, 2).open?.nodes).toHaveLength(5);
  });

  it('distinguishes built-in kernels from those of the lab, which come first', () => {
    expect(kernelName('builtin:matmul.wgsl?WG=32&COLS=1')).toEqual({
      name: 'matmul.wgsl',
      variant: 'WG=32&COLS=1',
      isBuiltin: true,
    });
    expect(kernelName('builtin')).toEqual({ name: 'built-in', isBuiltin: true });
    expect(kernelName('my_norm')).toEqual({ name: 'my_norm', isBuiltin: false });
    const graph = graphOf(1);
    const last = { ...(graph.nodes.at(-1) as LabGraph['nodes'][number]), kernel: 'mine' };
    expect(kernelsOf({ ...graph, nodes: [...graph.nodes.slice(0, -1), last] })).toEqual([
      { name: 'mine', isBuiltin: false },
      { name: 'matmul.wgsl', isBuiltin: true },
    ]);
  });
});

const holds = (outer: Rect, inner: Rect): boolean =>
  inner.x >= outer.x &&
  inner.y >= outer.y &&
  inner.x + inner.width <= outer.x + outer.width &&
  inner.y + inner.height <= outer.y + outer.height;
const overlap = (a: Rect, b: Rect): boolean =>
  a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

it('a layout: nothing overlaps, boxes contain their members, edges stay inside', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 6 }), fc.option(fc.nat(6), { nil: undefined }), (layers, open) => {
      const graph = graphOf(layers);
      const laid = layoutGraph(graph, foldGraph(graph, timesOf(graph), open));
      const solid = laid.items.filter(({ kind }) => kind !== 'unit' && kind !== 'layer');
      solid.forEach((one, index) => {
        for (const other of solid.slice(index + 1)) expect(overlap(one.rect, other.rect)).toBe(false);
      });
      const named = (id: string): Item | undefined => laid.items.find((item) => item.id === id);
      for (const item of laid.items) {
        expect(
          holds({ x: -0.01, y: -0.01, width: laid.width + 0.02, height: laid.height + 0.02 }, item.rect),
        ).toBe(true);
        if (item.kind !== 'unit') continue;
        for (const { id, component } of graph.nodes) {
          if (component === item.component) expect(holds(item.rect, named(id)?.rect ?? item.rect)).toBe(true);
        }
      }
      const isOpen = open !== undefined && open < layers;
      expect(laid.items.filter(({ kind }) => kind === 'node')).toHaveLength(2 + (isOpen ? 5 : 0));
      for (const { from, to, points } of laid.wires) {
        expect([named(from)?.id, named(to)?.id]).toEqual([from, to]);
        for (const { x } of points) expect(x >= -0.01 && x <= laid.width + 0.01).toBe(true);
      }
    }),
    { numRuns: 60 },
  );
});

it('rounds as ratios: both runs of the built-ins to the bound kernels, and to each other', () => {
  const sample = (
    kind: 'prefill' | 'decode',
    context: number,
    [baseline_ms, bound_ms, control_ms]: number[],
  ) => ({
    kind,
    context,
    tokens: 8,
    baseline_ms: baseline_ms ?? 0,
    bound_ms: bound_ms ?? 0,
    control_ms: control_ms ?? 0,
  });
  const rounds = [1, 2, 3].map((round) => ({
    stage: 'round' as const,
    round,
    least: 3,
    most: 9,
    samples: [
      sample('prefill', 64, [8, 4, 2]),
      sample('decode', 32, [round, 1, round]),
      sample('decode', 512, [4 * round, 1, round]),
    ],
  }));
  const cells = roundSelections(rounds);
  expect(cells.map(({ title }) => title)).toEqual([
    'Decode, all contexts',
    'Prompt',
    'Decode at 32',
    'Decode at 512',
  ]);
  const of = (name: string) => {
    const cell = cells.find((one) => one.name === name);
    if (!cell) throw new Error(name);
    return ratiosOf(rounds, cell);
  };
  expect(of('prefill').bound).toEqual([1, 1, 1].map(() => expect.closeTo(1)));
  expect(of('prefill').control).toEqual([4, 4, 4].map((one) => expect.closeTo(one)));
  expect(of('decode-32').bound).toEqual([1, 2, 3].map((one) => expect.closeTo(one)));
  expect(of('decode-32').median).toEqual([1, 1.5, 2].map((one) => expect.closeTo(one)));
  // The mean of the logarithms of 1 and 2.
  expect(of('decode').bound[0]).toBeCloseTo(Math.SQRT2);
  expect(of('decode').control[2]).toBeCloseTo(2);
});

it('the roofline bends where bandwidth meets arithmetic, and lists dispatches without arithmetic', () => {
  const component = (id: string, gbps: number, gflops: number) => ({
    id,
    kernel: 'k',
    gpu_ms: 1,
    gbps,
    gflops,
    bandwidth_fraction: 0,
    compute_fraction: 0,
    peak_fraction: 0,
    hint: '',
  });
  const components = [
    component('layers.0.q', 4, 8),
    component('layers.1.q', 5, 10),
    component('logits', 2, 1),
    component('layers.0.kv_write', 3, 0),
  ];
  const line = rooflineOf({ components, peaks: { gbps: 10, cached_gbps: 20, gflops: 100 } });
  expect(line.omitted.map(({ id }) => id)).toEqual(['layers.0.kv_write']);
  const [q, logits, memory, cached] = line.series;
  expect(line.series.map(({ name }) => name).slice(0, 2)).toEqual(['q', 'logits']);
  const points = (values: readonly (number | null)[] = []) =>
    values.flatMap((value, index) =>
      value === null ? [] : [[line.componentAt[index]?.id, line.x[index], value]],
    );
  expect(points(q?.values)).toEqual([
    ['layers.0.q', 2, 8],
    ['layers.1.q', 2, 10],
  ]);
  expect(points(logits?.values)).toEqual([['logits', 0.5, 1]]);
  for (const [index, x] of line.x.entries()) {
    expect(memory?.values[index]).toBeCloseTo(Math.min(100, 10 * x));
    expect(cached?.values[index]).toBeCloseTo(Math.min(100, 20 * x));
  }
  expect(line.x).toContain(10);
  const same = rooflineOf({ components, peaks: { gbps: 10, cached_gbps: 10, gflops: 100 } });
  expect(same.series).toHaveLength(3);
});

it('a chart accepts x in any order, and omits values that a log axis cannot show', () => {
  const props = {
    label: '',
    xLabel: '',
    yLabel: '',
    x: [10, -1, 1, 0, 100],
    series: [
      {
        name: 'a',
        values: [3, 9, 0, 9, Number.NaN],
        band: { low: [2, 1, -1, 1, 1], high: [4, 1, 1, 1, null] },
      },
    ],
  };
  const log = sortData({ ...props, xKind: 'log', yKind: 'log' });
  expect(log.from).toEqual([2, 0, 4]);
  expect(alignedData(log)).toEqual([
    [1, 10, 100],
    [null, 3, null],
    [null, 2, 1],
    [1, 4, null],
  ]);
  expect(sortData(props).from).toEqual([1, 3, 2, 0, 4]);
});
