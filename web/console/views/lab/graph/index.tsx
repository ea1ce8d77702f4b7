import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense, useMemo } from 'react';
import { api, held } from '../../../api/client.ts';
import { formatMs } from '../../../parts/format.ts';
import { Button, Empty, FaultNote, Loading, Panel } from '../../../parts/index.tsx';
import { useUrlState } from '../../../parts/url-state.ts';
import { useBenchRuns } from '../bench-runs.tsx';
import { stageText } from '../bench/runs.ts';
import type { Colouring } from './colours.ts';
import css from './graph.module.css';
import { Legend } from './legend.tsx';
import { kernelsOf, type LabGraph, layerOf, layersOf, timesOf } from './model.ts';
import { NodeList } from './node-list.tsx';
import { NodePanel } from './node-panel.tsx';

const Drawing = lazy(() => import('./drawing.tsx'));

/** The live graph of the resident model. */
export default function Graph() {
  const graph = useQuery({ queryKey: ['lab', 'graph'], queryFn: () => held(api.GET('/lab/v1/graph')) });
  if (graph.isPending) return <Loading what="the graph" />;
  if (graph.isError) {
    return (
      <div className={css['body']}>
        <FaultNote error={graph.error} retry={() => void graph.refetch()} />
      </div>
    );
  }
  return <Shown graph={graph.data} />;
}

function Shown({ graph }: { graph: LabGraph }) {
  const parts = useQuery({ queryKey: ['lab', 'parts'], queryFn: () => held(api.GET('/lab/v1/parts')) });
  const { measure, stop, running, runs } = useBenchRuns();
  const [form, setForm] = useUrlState('form', 'drawing');
  const [colour, setColour] = useUrlState('colour', 'time');
  const [open, setOpen] = useUrlState('layer', '0');
  const [selected, setSelected] = useUrlState('node');
  const times = useMemo(() => timesOf(graph), [graph]);
  const kernels = useMemo(() => kernelsOf(graph), [graph]);
  const layers = useMemo(() => layersOf(graph), [graph]);
  const colouring: Colouring = colour === 'kernel' ? 'kernel' : 'time';
  const layer = layers.find((one) => String(one) === open);
  const node = graph.nodes.find(({ id }) => id === selected);
  const last = runs.at(-1);
  const openLayer = (next: number | undefined) => setOpen(next === undefined ? 'none' : String(next));
  const select = (id: string) => {
    setSelected(id);
    const its = layerOf(id);
    if (its !== undefined && its !== layer) openLayer(its);
  };
  if (graph.nodes.length === 0) return <Empty title="The model has no graph." />;
  return (
    <div className={css['body']}>
      <div className={css['tools']}>
        <label>
          View
          <select value={form} onChange={({ target }) => setForm(target.value)}>
            <option value="drawing">Drawing</option>
            <option value="table">Table</option>
          </select>
        </label>
        <label>
          Color by
          <select value={colouring} onChange={({ target }) => setColour(target.value)}>
            <option value="time">GPU time</option>
            <option value="kernel">Kernel</option>
          </select>
        </label>
        {layers.length > 0 && (
          <label>
            Layer
            <select value={layer ?? 'none'} onChange={({ target }) => setOpen(target.value)}>
              <option value="none">None</option>
              {layers.map((one) => (
                <option key={one} value={one}>
                  {one}
                </option>
              ))}
            </select>
          </label>
        )}
        {running ? (
          <Button onClick={stop}>Stop measuring</Button>
        ) : (
          <Button onClick={measure}>{times.isMeasured ? 'Measure again' : 'Measure GPU times'}</Button>
        )}
        <span role="status">
          {running
            ? `The host ${stageText(running)} ...`
            : times.isMeasured
              ? `${formatMs(times.totalMs)} GPU time per decoded token`
              : 'GPU times have not been measured since the kernels changed.'}
        </span>
      </div>
      {last?.error !== undefined && <FaultNote error={last.error} retry={measure} />}
      <Legend colouring={colouring} times={times} kernels={kernels} />
      <div className={node ? css['split'] : undefined}>
        {form === 'table' ? (
          <Panel>
            <NodeList {...{ graph, times, layer, openLayer, selected, select }} />
          </Panel>
        ) : (
          <Suspense fallback={<Loading what="the drawing" />}>
            <Drawing {...{ graph, times, kernels, colouring, layer, openLayer, selected, select }} />
          </Suspense>
        )}
        {node && <NodePanel {...{ graph, node, times, select }} parts={parts.data} />}
      </div>
      {parts.isError && <FaultNote error={parts.error} retry={() => void parts.refetch()} />}
    </div>
  );
}
