import { Table } from '../../../../ui/index.tsx';
import { formatMs } from '../../../../ui/format.ts';
import css from './graph.module.css';
import {
  formatShare,
  type GraphNode,
  kernelName,
  layerOf,
  layersOf,
  type LabGraph,
  shortId,
  type Times,
} from './graph-model.ts';

/** The graph as tables by layer, for narrow screens and screen readers. */
export function NodeList(props: {
  graph: LabGraph;
  times: Times;
  layer: number | undefined;
  openLayer: (layer: number | undefined) => void;
  selected: string;
  select: (id: string) => void;
}) {
  const { graph, layer, openLayer, ...rest } = props;
  const layers = layersOf(graph);
  const nodesOfLayer = (layerIndex: number | undefined) =>
    graph.nodes.filter(({ id }) => layerOf(id) === layerIndex);
  const outside = nodesOfLayer(undefined);
  // In graph order: nodes before the layers, then nodes after them.
  const firstInside = graph.nodes.findIndex(({ id }) => layerOf(id) !== undefined);
  const isBefore = (node: GraphNode) => graph.nodes.indexOf(node) < firstInside;
  const groups = [
    outside.filter((node) => layers.length === 0 || isBefore(node)),
    outside.filter((node) => layers.length > 0 && !isBefore(node)),
  ] as const;
  return (
    <div className={css['layers']}>
      <Nodes caption="Before the layers" nodes={groups[0]} {...rest} />
      {layers.map((one) => (
        <details key={one} open={one === layer}>
          <summary
            onClick={(event) => {
              // The URL holds the expanded layer.
              event.preventDefault();
              openLayer(one === layer ? undefined : one);
            }}
          >
            Layer {one}: {summaryOf(nodesOfLayer(one), props.times)}
          </summary>
          {one === layer && <Nodes caption={`Layer ${one}`} nodes={nodesOfLayer(one)} {...rest} />}
        </details>
      ))}
      {groups[1].length > 0 && <Nodes caption="After the layers" nodes={groups[1]} {...rest} />}
    </div>
  );
}

function summaryOf(nodes: readonly GraphNode[], { units, isMeasured }: Times): string {
  const ids = [...new Set(nodes.map(({ component }) => component))];
  const bound = [
    ...new Set(
      nodes
        .map(({ kernel }) => kernelName(kernel))
        .flatMap(({ name, isBuiltin }) => (isBuiltin ? [] : [name])),
    ),
  ];
  const ms = ids.reduce((sum, id) => sum + (units.get(id)?.ms ?? 0), 0);
  return [
    `${nodes.length} nodes in ${ids.length} dispatches`,
    ...(isMeasured ? [formatMs(ms)] : []),
    ...(bound.length > 0 ? [`lab: ${bound.join(', ')}`] : []),
  ].join(', ');
}

function Nodes(props: {
  caption: string;
  nodes: readonly GraphNode[];
  times: Times;
  selected: string;
  select: (id: string) => void;
}) {
  const { caption, nodes, times, selected, select } = props;
  return (
    <Table
      caption={caption}
      rows={nodes}
      keyOf={({ id }) => id}
      isSelected={({ id }) => id === selected}
      columns={[
        {
          key: 'id',
          head: 'Node',
          cell: ({ id }) => (
            <button
              type="button"
              className={css['nodeButton']}
              aria-pressed={id === selected}
              onClick={() => select(id === selected ? '' : id)}
            >
              {shortId(id)}
            </button>
          ),
        },
        { key: 'op', head: 'Op', cell: ({ op }) => op },
        { key: 'dtype', head: 'Format', cell: ({ dtype }) => dtype },
        { key: 'shape', head: 'Output', cell: ({ shape }) => shape.join(' × ') },
        {
          key: 'kernel',
          head: 'Kernel',
          cell: ({ kernel }) => {
            const { name, isBuiltin } = kernelName(kernel);
            return isBuiltin ? name : <strong>lab: {name}</strong>;
          },
        },
        { key: 'dispatch', head: 'Dispatch', cell: ({ component }) => shortId(component) },
        {
          key: 'ms',
          head: 'GPU time of the dispatch',
          number: true,
          cell: ({ component }) => {
            const { ms, share = 0 } = times.units.get(component) ?? {};
            return ms === undefined ? '' : `${formatMs(ms)} (${formatShare(share)})`;
          },
        },
      ]}
    />
  );
}
