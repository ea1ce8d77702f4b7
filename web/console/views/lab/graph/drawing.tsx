import '@xyflow/react/dist/base.css';
import {
  type Edge,
  type EdgeProps,
  Handle,
  type Node,
  type NodeProps,
  Panel,
  Position,
  ReactFlow,
  useReactFlow,
} from '@xyflow/react';
import { createContext, use, useCallback, useEffect, useMemo, useRef } from 'react';
import { Button } from '../../../parts/index.tsx';
import { type Colouring, type Look, lookOf } from './colours.ts';
import css from './graph.module.css';
import { type Item, type Laid, layOut, pathOf, type Rect } from './layout.ts';
import { folded, type KernelName, type LabGraph, shortOf, type Times } from './model.ts';

export interface DrawingProps {
  readonly graph: LabGraph;
  readonly times: Times;
  readonly kernels: readonly KernelName[];
  readonly colouring: Colouring;
  /** The open layer. */
  readonly layer: number | undefined;
  readonly openLayer: (layer: number | undefined) => void;
  /** Id of the selected node. */
  readonly selected: string;
  readonly select: (id: string) => void;
}

const Shown = createContext<DrawingProps | undefined>(undefined);
const useShown = (): DrawingProps => {
  const shown = use(Shown);
  if (!shown) throw new Error('outside of the drawing');
  return shown;
};

type Drawn = Node<{ item: Item }>;

/** Read-only diagram of the graph. */
export default function Drawing(props: DrawingProps) {
  const { graph, times, layer, selected } = props;
  const laid = useMemo(() => layOut(graph, folded(graph, times, layer)), [graph, times, layer]);
  const nodes = useMemo(
    () =>
      laid.items.map(
        (item): Drawn => ({
          id: item.id,
          type: item.kind,
          position: { x: item.rect.x, y: item.rect.y },
          width: item.rect.width,
          height: item.rect.height,
          zIndex: depths[item.kind],
          data: { item },
          focusable: false,
        }),
      ),
    [laid],
  );
  const edges = useMemo(
    () =>
      laid.wires.map(
        ({ id, from, to, points }): Edge => ({
          id,
          source: from,
          target: to,
          type: 'wire',
          data: { path: pathOf(points) },
          focusable: false,
        }),
      ),
    [laid],
  );
  return (
    <Shown value={props}>
      <div className={css['drawing']}>
        <ReactFlow
          nodes={nodes}
          edges={edges}
          nodeTypes={nodeTypes}
          edgeTypes={edgeTypes}
          minZoom={0.2}
          maxZoom={2}
          nodesDraggable={false}
          nodesConnectable={false}
          elementsSelectable={false}
          disableKeyboardA11y
          zoomOnScroll={false}
          preventScrolling={false}
          zoomActivationKeyCode="Control"
          attributionPosition="bottom-left"
          aria-label="Graph of one decoded token, top to bottom"
        >
          <Views laid={laid} of={`${layer}`} selected={selected} />
        </ReactFlow>
        <svg width="0" height="0" aria-hidden="true" className={css['marks']}>
          <marker
            id="lab-graph-arrow"
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="7"
            markerHeight="7"
            orient="auto"
          >
            <path d="M0 0 8 4 0 8Z" />
          </marker>
        </svg>
      </div>
    </Shown>
  );
}

const depths = { layer: -3, unit: -2, node: 1, fold: 1, entry: 1 } as const;

/** Zoom and pan buttons, and the initial viewport. */
function Views({ laid, of, selected }: { laid: Laid; of: string; selected: string }) {
  const flow = useReactFlow();
  const reveal = useReveal();
  const latest = useRef(laid);
  latest.current = laid;
  useEffect(() => {
    // Starts at the top, as wide as fits at a readable zoom.
    const room = boxSize()?.width ?? 0;
    const { width } = latest.current;
    const zoom = Math.min(1, Math.max(0.5, (room - 24) / width));
    void flow.setViewport({ x: Math.max(12, (room - width * zoom) / 2), y: 14, zoom });
  }, [flow, of]);
  useEffect(() => {
    const item = latest.current.items.find(({ id }) => id === selected);
    if (item) reveal(item.rect);
  }, [reveal, selected, of]);
  const pan = (by: number) => {
    const { x, y, zoom } = flow.getViewport();
    void flow.setViewport({ x, y: y + by, zoom });
  };
  return (
    <Panel position="bottom-right" className={css['views'] ?? ''}>
      <Button aria-label="Zoom in" onClick={() => void flow.zoomIn()}>
        +
      </Button>
      <Button aria-label="Zoom out" onClick={() => void flow.zoomOut()}>
        −
      </Button>
      <Button aria-label="Move up" onClick={() => pan(160)}>
        ↑
      </Button>
      <Button aria-label="Move down" onClick={() => pan(-160)}>
        ↓
      </Button>
      <Button onClick={() => void flow.fitView({ padding: 0.04 })}>Fit</Button>
    </Panel>
  );
}

const boxSize = () => document.querySelector(`.${css['drawing']}`)?.getBoundingClientRect();

/** Centers a rectangle that is not fully visible. */
function useReveal(): (rect: Rect) => void {
  const flow = useReactFlow();
  return useCallback(
    ({ x, y, width, height }) => {
      const { x: left, y: top, zoom } = flow.getViewport();
      const box = boxSize();
      if (!box) return;
      const isSeen =
        x * zoom + left >= 0 &&
        y * zoom + top >= 0 &&
        (x + width) * zoom + left <= box.width &&
        (y + height) * zoom + top <= box.height;
      if (!isSeen) void flow.setCenter(x + width / 2, y + height / 2, { zoom });
    },
    [flow],
  );
}

/** Invisible handles: React Flow requires them, although wires have their own paths. */
const Ends = () => (
  <>
    <Handle type="target" position={Position.Top} isConnectable={false} className={css['handle'] ?? ''} />
    <Handle type="source" position={Position.Bottom} isConnectable={false} className={css['handle'] ?? ''} />
  </>
);

const groundOf = ({ ground, edge }: Look) => ({
  ...(ground === undefined ? {} : { background: ground }),
  ...(edge === undefined ? {} : { borderColor: edge }),
});

function NodeBox({ data: { item } }: NodeProps<Drawn>) {
  const reveal = useReveal();
  const { times, kernels, colouring, selected, select } = useShown();
  if (item.kind !== 'node') return null;
  const { node } = item;
  const unit = times.units.get(node.component);
  const look = lookOf(colouring, { ...unit, kernel: node.kernel }, { times, kernels });
  const isAlone = (unit?.nodes.length ?? 1) === 1;
  const isChosen = selected === node.id;
  return (
    <>
      <Ends />
      <button
        type="button"
        className={css['node']}
        style={groundOf(look)}
        aria-pressed={isChosen}
        // Keyboard focus scrolls the node into view.
        onFocus={({ currentTarget }) => {
          if (currentTarget.matches(':focus-visible')) reveal(item.rect);
        }}
        onClick={() => select(isChosen ? '' : node.id)}
      >
        <strong>{shortOf(node.id)}</strong>
        <span>{isAlone ? look.words : `${node.op} · ${node.dtype}`}</span>
      </button>
    </>
  );
}

function UnitBox({ data: { item } }: NodeProps<Drawn>) {
  const { times, kernels, colouring } = useShown();
  const unit = item.kind === 'unit' ? times.units.get(item.component) : undefined;
  if (!unit) return null;
  const look = lookOf(colouring, unit, { times, kernels });
  return (
    <>
      <Ends />
      <div className={css['unit']} style={groundOf(look)}>
        <span>
          <strong>{shortOf(unit.id)}</strong> {look.words}
        </span>
      </div>
    </>
  );
}

function LayerBox({ data: { item } }: NodeProps<Drawn>) {
  const { openLayer } = useShown();
  if (item.kind !== 'layer') return null;
  return (
    <>
      <Ends />
      <div className={css['layer']}>
        <span>
          <strong>Layer {item.layer}</strong>
          <button type="button" className={css['fold']} onClick={() => openLayer(undefined)}>
            Collapse
          </button>
        </span>
      </div>
    </>
  );
}

function FoldBox({ data: { item } }: NodeProps<Drawn>) {
  const { times, kernels, openLayer, colouring } = useShown();
  if (item.kind !== 'fold') return null;
  const { first, last, nodes, kernels: bound } = item.fold;
  const [only = ''] = bound;
  const look: Look =
    colouring === 'time' || bound.length > 0
      ? lookOf(colouring, { ...item.fold, kernel: only }, { times, kernels })
      : { words: 'built-in kernels' };
  return (
    <>
      <Ends />
      <button
        type="button"
        className={css['folded']}
        // A sum over layers is not comparable with the share of a single node, so it has no tint.
        style={colouring === 'time' ? {} : groundOf(look)}
        onClick={() => openLayer(first)}
      >
        <strong>{first === last ? `Layer ${first}` : `Layers ${first} to ${last}`}</strong>
        <span>
          {nodes} nodes ·{' '}
          {bound.length > 1 && colouring === 'kernel' ? `lab: ${bound.join(', ')}` : look.words}
        </span>
        <span>Expand {first === last ? '' : `layer ${first}`}</span>
      </button>
    </>
  );
}

function EntryBox({ data: { item } }: NodeProps<Drawn>) {
  if (item.kind !== 'entry') return null;
  return (
    <>
      <Ends />
      <div className={css['entry']} title={`Output of ${item.from.join(', ')}`}>
        input
      </div>
    </>
  );
}

function WireLine({ id, data }: EdgeProps<Edge<{ path: string }>>) {
  return <path id={id} d={data?.path ?? ''} className={css['wire']} markerEnd="url(#lab-graph-arrow)" />;
}

const nodeTypes = { node: NodeBox, unit: UnitBox, layer: LayerBox, fold: FoldBox, entry: EntryBox };
const edgeTypes = { wire: WireLine };
