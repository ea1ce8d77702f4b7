import { useState } from 'react';
import { formatBytes } from '../../../ui/format.ts';
import { Badge, Button, Field, FaultNote, Panel, Row } from '../../../ui/index.tsx';
import css from './models.module.css';
import { pullName } from './pull-name.ts';
import { forgetPull, type Pull, startPull, stopPull, usePulls } from './pulls.ts';
import { useRefreshModels } from './queries.ts';
import { stateTone } from '../../../ui/states.ts';

/** Downloads models by the name of their repository, with progress. */
export function PullPanel() {
  const pulls = usePulls();
  const refresh = useRefreshModels();
  const [text, setText] = useState('');
  const start = (name: string) => void startPull(name, () => void refresh());
  return (
    <Panel title="Pull a model">
      <form
        className={css['pull']}
        onSubmit={(event) => {
          event.preventDefault();
          if (text.trim() === '') return;
          start(pullName(text));
          setText('');
        }}
      >
        <Field
          label="Repository"
          hint={
            <>
              A Hugging Face repository with GGUF, safetensors or MLC files: <code>OWNER/NAME</code>, with{' '}
              <code>:QUANTIZATION</code> or <code>:FILE</code> for one of several.
            </>
          }
        >
          {(control) => (
            <input
              {...control}
              value={text}
              placeholder="OWNER/NAME:Q4_K_M"
              autoComplete="off"
              spellCheck={false}
              onChange={({ target }) => setText(target.value)}
            />
          )}
        </Field>
        <Button type="submit" kind="primary" disabled={text.trim() === ''}>
          Pull
        </Button>
      </form>
      {pulls.length > 0 && (
        <ul className={css['pulls']} aria-label="Downloads">
          {pulls.map((pull) => (
            <li key={pull.name}>
              <PullRow pull={pull} onResume={() => start(pull.name)} />
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function PullRow({ pull, onResume }: { pull: Pull; onResume: () => void }) {
  const { name, state, status, progress, error } = pull;
  const size = progress && `${formatBytes(progress.doneBytes)} of ${formatBytes(progress.totalBytes)}`;
  return (
    <div className={css['pullRow']}>
      <Row>
        <strong>{name}</strong>
        <Badge tone={stateTone(state)}>{status}</Badge>
        {size && <span className={css['muted']}>{size}</span>}
      </Row>
      {state === 'running' && (
        <progress
          aria-label={`Download of ${name}`}
          {...(progress ? { value: progress.doneBytes, max: progress.totalBytes } : {})}
        />
      )}
      {state === 'failed' && <FaultNote error={error} />}
      <Row>
        {state === 'running' ? (
          <Button aria-label={`Stop the download of ${name}`} onClick={() => stopPull(name)}>
            Stop
          </Button>
        ) : (
          <>
            {state !== 'done' && (
              <Button aria-label={`Resume the download of ${name}`} onClick={onResume}>
                Resume
              </Button>
            )}
            <Button aria-label={`Hide the download of ${name}`} onClick={() => forgetPull(name)}>
              Hide
            </Button>
          </>
        )}
      </Row>
    </div>
  );
}
