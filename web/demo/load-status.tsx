import { Button } from '../console/parts/index.tsx';
import type { LoadProgress } from '../engine/types.ts';
import css from './demo.module.css';
import { FailureNote } from './failure-note.tsx';
import { embedded, type Loaded, type Source } from './loader.ts';

export const nameOf = (source: Source): string => {
  if (source.from === 'embedded') return 'the embedded model';
  if (source.from === 'files') return source.files.map(({ name }) => name).join(', ');
  return source.url;
};

const phases: Readonly<Record<LoadProgress['phase'], string>> = {
  adapter: 'looking for a GPU',
  download: 'downloading',
  weights: 'uploading the weights to the GPU',
  compile: 'compiling kernels',
  'warm-up': 'warming up',
  ready: 'ready',
};

function Progress(props: { source: Source; progress: LoadProgress; cancel: () => void }) {
  const { source, progress, cancel } = props;
  const { phase, message, done, total, cached } = progress;
  const isMeasured = done !== undefined && total !== undefined && total > 0;
  return (
    <div className={css['loading']}>
      <div className={css['loadingHead']}>
        {/* Only the phase is announced to screen readers; byte counts would be announced continuously. */}
        <span role="status">
          Loading {nameOf(source)}: {phases[phase]}
        </span>
        <Button onClick={cancel}>Cancel</Button>
      </div>
      <progress
        aria-label={`Loading ${nameOf(source)}`}
        {...(isMeasured ? { value: done, max: total } : {})}
      />
      <p className={css['bytes']}>
        {message}
        {cached === true && ', from storage'}
      </p>
    </div>
  );
}

/** Progress, failure or offer of a model; nothing when a model is ready. */
export function LoadStatus(props: {
  loaded: Loaded;
  load: (source: Source) => void;
  cancel: () => void;
  /** URL of a model from the page's link. It is on another server, so it loads only when the user asks. */
  offered: string | undefined;
}) {
  const { loaded, load, cancel, offered } = props;
  const toEmbedded = <Button onClick={() => load(embedded)}>Load the embedded model</Button>;
  if (loaded.phase === 'loading')
    return <Progress source={loaded.source} progress={loaded.progress} cancel={cancel} />;
  if (loaded.phase === 'failed') {
    const { source, failure } = loaded;
    return (
      <FailureNote failure={failure}>
        <Button kind="primary" onClick={() => load(source)}>
          Load again
        </Button>
        {source.from !== 'embedded' && toEmbedded}
      </FailureNote>
    );
  }
  if (loaded.phase === 'cancelled') {
    const { source } = loaded;
    return (
      <div className={css['loading']} role="status">
        <p>
          Cancelled loading {nameOf(source)}.
          {source.from === 'url' && ' The downloaded part is kept, and loading resumes from there.'}
        </p>
        <div className={css['choices']}>
          <Button kind="primary" onClick={() => load(source)}>
            {source.from === 'url' ? 'Resume' : 'Load'}
          </Button>
          {source.from !== 'embedded' && toEmbedded}
        </div>
      </div>
    );
  }
  if (loaded.phase === 'none' && offered !== undefined)
    return (
      <div className={css['loading']}>
        <p>
          This link names a model: <code className={css['url']}>{offered}</code>. Loading it contacts that
          server.
        </p>
        <div className={css['choices']}>
          <Button kind="primary" onClick={() => load({ from: 'url', url: offered })}>
            Load it
          </Button>
          {toEmbedded}
        </div>
      </div>
    );
  return null;
}
