import { DiffView, FaultNote, Field, Loading, Panel } from '../../../../ui/index.tsx';
import { useUrlState } from '../../../../ui/url-state.ts';
import { useParts } from '../kernels/queries.ts';
import { configDiff, type Side, sideOfBindings, sideOfConfig, spansOf } from './config-text.ts';
import css from './configs.module.css';
import { useConfig, useGraph } from './queries.ts';

/** Cannot be a config name: those begin with a letter or digit. */
const currentBindings = '-bound';

/** Compares two configs, or a config with the current bindings. */
export function ComparePanel({ names }: { names: readonly string[] }) {
  const [before, setBefore] = useUrlState('before', currentBindings);
  const [after, setAfter] = useUrlState('after', names[0] ?? currentBindings);
  const configSelect = (label: string, value: string, choose: (name: string) => void) => (
    <Field label={label}>
      {(control) => (
        <select {...control} value={value} onChange={({ target }) => choose(target.value)}>
          <option value={currentBindings}>current bindings</option>
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      )}
    </Field>
  );
  return (
    <Panel title="Compare">
      <div className={css['line']}>
        {configSelect('Before', before, setBefore)}
        {configSelect('After', after, setAfter)}
      </div>
      <Difference before={before} after={after} />
    </Panel>
  );
}

function Difference({ before, after }: { before: string; after: string }) {
  const isLive = before === currentBindings || after === currentBindings;
  const left = useSide(before, isLive);
  const right = useSide(after, isLive);
  const error = left.error ?? right.error;
  if (error) return <FaultNote error={error} />;
  if (!left.side || !right.side) return <Loading what="the configs" />;
  const diff = configDiff(left.side, right.side);
  return (
    <>
      <p role="status">
        {diff === undefined
          ? 'Both bind the same kernels to the same components.'
          : 'Lines with + are only in the second, lines with - only in the first.'}
        {isLive &&
          ' The host does not return the source of bound kernels, so kernels are compared by digest.'}
      </p>
      {diff !== undefined && <DiffView diff={diff} label="Difference" />}
    </>
  );
}

/** @param isLive one side is the current bindings, which are listed by node */
function useSide(name: string, isLive: boolean): { side?: Side; error?: unknown } {
  const parts = useParts();
  const graph = useGraph();
  const config = useConfig(name, name !== currentBindings);
  const error = config.error ?? parts.error ?? graph.error;
  if (error) return { error };
  if (name === currentBindings) return parts.data ? { side: sideOfBindings(parts.data) } : {};
  if (!config.data || !graph.data) return {};
  return { side: sideOfConfig(config.data, isLive ? spansOf(graph.data) : undefined) };
}
