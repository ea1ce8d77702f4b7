import { useId, useState } from 'react';
import { Badge, Button, Field, Panel } from '../ui/index.tsx';
import css from './demo.module.css';
import { StoredModels } from './stored-models.tsx';
import { embeddedSource, type LoadState, type Source } from './loader.ts';
import { modelUrlFault } from './model-url.ts';
import { sourceName } from './load-status.tsx';

const stateBadge = ({ phase }: LoadState) => {
  if (phase === 'ready') return <Badge tone="good">Ready</Badge>;
  if (phase === 'loading') return <Badge>Loading</Badge>;
  return (
    <Badge tone={phase === 'failed' ? 'bad' : 'warn'}>{phase === 'failed' ? 'Failed' : 'No model'}</Badge>
  );
};

/** Choice of the model: the embedded one, a URL or the user's files. */
export function ModelPanel(props: {
  loadState: LoadState;
  load: (source: Source) => void;
  /** Model URL from the URL of the page. */
  model: string;
}) {
  const { loadState, load, model } = props;
  const [url, setUrl] = useState(model);
  const [fault, setFault] = useState<string>();
  const fileInputId = useId();
  const isEmbedded = loadState.phase !== 'none' && loadState.source.from === 'embedded';
  return (
    <Panel title="Model" tools={stateBadge(loadState)}>
      {loadState.phase !== 'none' && <p className={css['url']}>{sourceName(loadState.source)}</p>}
      {!isEmbedded && <Button onClick={() => load(embeddedSource)}>Load the embedded model</Button>}
      <form
        className={css['form']}
        onSubmit={(event) => {
          event.preventDefault();
          const text = url.trim();
          const urlFault = modelUrlFault(text, location.href);
          setFault(urlFault);
          if (urlFault === undefined) load({ from: 'url', url: text });
        }}
      >
        <Field
          label="Model URL"
          fault={fault}
          hint="A GGUF file, for example on huggingface.co under /resolve/main/. It is stored in this browser; the page contacts no other server until you press Load."
        >
          {(control) => (
            <input
              {...control}
              type="text"
              inputMode="url"
              autoComplete="off"
              spellCheck={false}
              placeholder="https://"
              value={url}
              onChange={({ target }) => {
                setUrl(target.value);
                setFault(undefined);
              }}
            />
          )}
        </Field>
        <Button type="submit" disabled={url.trim() === ''}>
          Load from URL
        </Button>
      </form>
      <div className={css['form']}>
        <label htmlFor={fileInputId} className={css['label']}>
          Local GGUF file
        </label>
        <input
          id={fileInputId}
          type="file"
          multiple
          onChange={({ target }) => {
            const files = [...(target.files ?? [])];
            // Reset, so that the same file can be chosen again.
            target.value = '';
            if (files.length > 0) load({ from: 'files', files });
          }}
        />
        <p className={css['quiet']}>
          You can also drop it anywhere on this page. The file is read in place and not uploaded. If a model
          has several parts, choose them together.
        </p>
      </div>
      <StoredModels loaded={loadState} load={load} />
    </Panel>
  );
}
