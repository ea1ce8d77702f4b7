import { useId, useState } from 'react';
import { Badge, Button, Field, Panel } from '../console/parts/index.tsx';
import css from './demo.module.css';
import { KeptModels } from './kept-models.tsx';
import { embedded, type Loaded, type Source } from './loader.ts';
import { faultOfModelUrl } from './model-url.ts';
import { nameOf } from './load-status.tsx';

const stateOf = ({ phase }: Loaded) => {
  if (phase === 'ready') return <Badge tone="good">Ready</Badge>;
  if (phase === 'loading') return <Badge>Loading</Badge>;
  return (
    <Badge tone={phase === 'failed' ? 'bad' : 'warn'}>{phase === 'failed' ? 'Failed' : 'None loaded'}</Badge>
  );
};

/** Which model: the embedded one, one of a URL, or files of the person's own. */
export function ModelPanel(props: {
  loaded: Loaded;
  load: (source: Source) => void;
  /** What stands in the URL of the page. */
  model: string;
}) {
  const { loaded, load, model } = props;
  const [url, setUrl] = useState(model);
  const [fault, setFault] = useState<string>();
  const file = useId();
  const isEmbedded = loaded.phase !== 'none' && loaded.source.from === 'embedded';
  return (
    <Panel title="Model" tools={stateOf(loaded)}>
      {loaded.phase !== 'none' && <p className={css['url']}>{nameOf(loaded.source)}</p>}
      {!isEmbedded && <Button onClick={() => load(embedded)}>Load the embedded model</Button>}
      <form
        className={css['form']}
        onSubmit={(event) => {
          event.preventDefault();
          const text = url.trim();
          const wrong = faultOfModelUrl(text, location.href);
          setFault(wrong);
          if (wrong === undefined) load({ from: 'url', url: text });
        }}
      >
        <Field
          label="GGUF by URL"
          fault={fault}
          hint="For example a file of huggingface.co, below /resolve/main/. It is kept in this browser; the page asks no other server before you press Load."
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
          Load from the URL
        </Button>
      </form>
      <div className={css['form']}>
        <label htmlFor={file} className={css['label']}>
          GGUF of yours
        </label>
        <input
          id={file}
          type="file"
          multiple
          onChange={({ target }) => {
            const files = [...(target.files ?? [])];
            // The same file may be chosen again.
            target.value = '';
            if (files.length > 0) load({ from: 'files', files });
          }}
        />
        <p className={css['quiet']}>
          Or drop it anywhere on this page. It is read where it lies and goes nowhere. All parts at once,
          where a model has several.
        </p>
      </div>
      <KeptModels loaded={loaded} load={load} />
    </Panel>
  );
}
