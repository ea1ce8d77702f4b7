import { Link } from 'wouter';
import { formatBytes, formatNumber, formatParameters } from '../../../ui/format.ts';
import { CodeBlock } from '../../../ui/copy.tsx';
import { type Column, Facts, FaultNote, Loading, Panel, Table, LiveBadge } from '../../../ui/index.tsx';
import type { Identity, Info } from './info.ts';
import { type ModelState, useModelState } from './model-state.ts';
import { StateBadge } from '../../../ui/state-badge.tsx';

const badges = {
  ready: <StateBadge state="ready" />,
  loading: <StateBadge state="loading" />,
  none: <LiveBadge tone="bad">no model</LiveBadge>,
};

/** The resident model and those that are loaded beside it, or how to start the host with one. */
export function ModelPanel({
  model,
  loaded,
}: {
  model: Info['model'] | undefined;
  loaded: readonly Identity[];
}) {
  const state = useModelState();
  return (
    <Panel title="Model" tools={state.data && <span role="status">{badges[state.data]}</span>}>
      {state.isPending && <Loading what="the model's state" />}
      {state.isError && <FaultNote error={state.error} retry={() => void state.refetch()} />}
      {state.data && state.data !== 'ready' && <ModelAbsent state={state.data} />}
      {model && state.data === 'ready' && (
        <>
          <Facts
            facts={[
              ['Name', <strong key="name">{model.id}</strong>],
              ['Architecture', model.architecture],
              ['Parameters', formatParameters(model.parameters)],
              ['Quantization', model.quantization],
              ['Context', `${formatNumber(model.context_length)} tokens`],
            ]}
          />
          <p>
            <Link href="/console/chat">Chat with the model</Link>, or{' '}
            <Link href="/console/lab">inspect its graph and kernels</Link>. All{' '}
            <Link href="/console/models">models</Link> of this host.
          </p>
          {loaded.length > 1 && (
            <>
              <h3>Loaded models</h3>
              <Table
                caption="Loaded models"
                columns={loadedColumns}
                rows={loaded}
                keyOf={({ id }, index) => `${index} ${id}`}
              />
            </>
          )}
        </>
      )}
    </Panel>
  );
}

const loadedColumns: readonly Column<Identity>[] = [
  { key: 'id', head: 'Name', cell: ({ id }) => id },
  { key: 'quantization', head: 'Quantization', cell: ({ quantization }) => quantization },
  { key: 'context', head: 'Context', cell: (one) => formatNumber(one.context_length), number: true },
  { key: 'memory', head: 'Memory', cell: (one) => formatBytes(one.memory_bytes), number: true },
];

function ModelAbsent({ state }: { state: Exclude<ModelState, 'ready'> }) {
  if (state === 'loading')
    return (
      <p>
        The model is loading and its kernels are being compiled. The first start on an adapter also benchmarks
        the kernels. Until then, completions and the lab answer 503. This page updates automatically.
      </p>
    );
  return (
    <>
      <p>
        No model is loaded, so chat, agents and the lab are unavailable. Sessions, observe and recorder work.
        Start the host with the embedded model or with your own:
      </p>
      <CodeBlock
        label="Commands that start the host with a model"
        code={'node dist/host.js --gpu\nnode dist/host.js --gpu --model PATH.gguf'}
      />
    </>
  );
}
