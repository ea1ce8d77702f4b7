import { useSyncExternalStore } from 'react';
import { formatNumber } from '../ui/format.ts';
import { Button, Field, Panel } from '../ui/index.tsx';
import css from './demo.module.css';
import { openWebLlm, type WebLlm, type WebLlmState } from './web-llm/client.ts';
import type { ListedModel } from './web-llm/protocol.ts';

/** Default model: small, and without optional GPU features. */
const defaultModelId = 'SmolLM2-360M-Instruct-q4f32_1-MLC';
const modelHosts = 'huggingface.co (weights) and raw.githubusercontent.com (model code)';

function WebLlmFault({ state }: { state: WebLlmState & { phase: 'failed' } }) {
  const { id, message, blocked } = state;
  return (
    <div className={css['failure']} role="alert">
      <strong>{id === undefined ? 'web-llm could not be started' : `web-llm could not load ${id}`}</strong>
      <p>{message}</p>
      <p>
        {blocked === undefined
          ? `Its models come from ${modelHosts}: both must be reachable from this browser. The chat with lathe works without it.`
          : `The policy of this page (Content-Security-Policy) does not allow ${blocked}. The server of the page can allow it in connect-src.`}
      </p>
    </div>
  );
}

function ModelChooser(props: {
  webLlm: WebLlm;
  models: readonly ListedModel[];
  state: WebLlmState;
  isBusy: boolean;
  features: readonly string[] | undefined;
  chosen: string;
  choose: (id: string) => void;
  loadInLathe: (url: string) => void;
}) {
  const { webLlm, models, state, isBusy, features, chosen, choose, loadInLathe } = props;
  const selectedModel =
    models.find(({ id }) => id === chosen) ?? models.find(({ id }) => id === defaultModelId) ?? models[0];
  if (!selectedModel) return null;
  const missingFeatures = ({ features: needed }: ListedModel) =>
    features === undefined ? [] : needed.filter((feature) => !features.includes(feature));
  const modelTitle = (model: ListedModel) => {
    const { id, gpuMegabytes } = model;
    const size = gpuMegabytes === undefined ? '' : ` (${formatNumber(gpuMegabytes, 0)} MB of GPU memory)`;
    const missing = missingFeatures(model);
    return missing.length === 0 ? `${id}${size}` : `${id}: needs ${missing.join(', ')}`;
  };
  const isLoading = state.phase === 'loading';
  return (
    <>
      <Field label="Model of web-llm's list" hint={`Loading contacts ${modelHosts}.`}>
        {(control) => (
          <select
            {...control}
            value={selectedModel.id}
            disabled={isLoading || isBusy}
            onChange={({ target }) => choose(target.value)}
          >
            {models.map((model) => (
              <option key={model.id} value={model.id} disabled={missingFeatures(model).length > 0}>
                {modelTitle(model)}
              </option>
            ))}
          </select>
        )}
      </Field>
      {isLoading && (
        <>
          <progress aria-label={`Loading ${state.id}`} value={state.share} max={1} />
          <p className={css['quiet']} role="status">
            {state.message}
          </p>
        </>
      )}
      <div className={css['choices']}>
        {isLoading ? (
          <Button onClick={() => webLlm.unload()}>Cancel</Button>
        ) : (
          <Button disabled={isBusy} onClick={() => webLlm.load(selectedModel.id)}>
            Load in web-llm
          </Button>
        )}
        {state.phase === 'ready' && (
          <Button disabled={isBusy} onClick={() => webLlm.unload()}>
            Unload
          </Button>
        )}
        <Button disabled={isBusy} onClick={() => loadInLathe(selectedModel.weights)}>
          Load the same weights in lathe
        </Button>
      </div>
    </>
  );
}

const noSubscription = () => () => {};
const noModels: readonly ListedModel[] = [];
const initialState: WebLlmState = { phase: 'starting' };

/** Optional comparison: sends the same prompt and sampling to web-llm. */
export function ComparePanel(props: {
  webLlm: WebLlm | undefined;
  onToggle: (webLlm: WebLlm | undefined) => void;
  isBusy: boolean;
  /** Features of the device, if known. */
  features: readonly string[] | undefined;
  chosen: string;
  choose: (id: string) => void;
  loadInLathe: (url: string) => void;
}) {
  const { webLlm, onToggle, ...rest } = props;
  const state = useSyncExternalStore(
    webLlm?.state.subscribe ?? noSubscription,
    webLlm?.state.get ?? (() => initialState),
  );
  const models = useSyncExternalStore(
    webLlm?.models.subscribe ?? noSubscription,
    webLlm?.models.get ?? (() => noModels),
  );
  return (
    <Panel title="Comparison">
      <label className={css['switch']}>
        <input
          type="checkbox"
          role="switch"
          checked={webLlm !== undefined}
          aria-checked={webLlm !== undefined}
          disabled={rest.isBusy}
          onChange={({ target }) => {
            webLlm?.close();
            onToggle(target.checked ? openWebLlm() : undefined);
          }}
        />
        Compare with web-llm
      </label>
      <p className={css['quiet']}>
        web-llm is another engine for language models in browsers. With the comparison on, each prompt goes to
        lathe first and then to web-llm, with the same messages and sampling (web-llm has no top k and no min
        p). Its code is loaded from this server when you turn the switch on, its models from {modelHosts}.
      </p>
      {webLlm !== undefined && (
        <>
          {state.phase === 'starting' && <p role="status">Loading web-llm ...</p>}
          {state.phase === 'failed' && <WebLlmFault state={state} />}
          {state.phase === 'ready' && (
            <p role="status">web-llm is ready with {state.id}: the next prompt goes to both.</p>
          )}
          <ModelChooser webLlm={webLlm} models={models} state={state} {...rest} />
        </>
      )}
    </Panel>
  );
}
