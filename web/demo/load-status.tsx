import { Button } from '../ui/index.tsx';
import type { LoadProgress } from '../engine/types.ts';
import css from './demo.module.css';
import { FailureNote } from './failure-note.tsx';
import { embeddedSource, type LoadState, type Source } from './loader.ts';

export const sourceName = (source: Source): string => {
  if (source.from === 'embedded') return 'the embedded model';
  if (source.from === 'files') return source.files.map(({ name }) => name).join(', ');
  return source.url;
};

const phaseTexts: Readonly<Record<LoadProgress['phase'], string>> = {
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
  const hasTotal = done !== undefined && total !== undefined && total > 0;
  return (
    <div className={css['loading']}>
      <div className={css['loadingHead']}>
        {/* Only the phase is announced to screen readers; byte counts would be announced continuously. */}
        <span role="status">
          Loading {sourceName(source)}: {phaseTexts[phase]}
        </span>
        <Button onClick={cancel}>Cancel</Button>
      </div>
      <progress
        aria-label={`Loading ${sourceName(source)}`}
        {...(hasTotal ? { value: done, max: total } : {})}
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
  loadState: LoadState;
  load: (source: Source) => void;
  cancel: () => void;
  /** URL of a model from the page's link. It is on another server, so it loads only when the user asks. */
  offeredUrl: string | undefined;
}) {
  const { loadState, load, cancel, offeredUrl } = props;
  const embeddedButton = <Button onClick={() => load(embeddedSource)}>Load the embedded model</Button>;
  if (loadState.phase === 'loading')
    return <Progress source={loadState.source} progress={loadState.progress} cancel={cancel} />;
  if (loadState.phase === 'failed') {
    const { source, failure } = loadState;
    return (
      <FailureNote failure={failure}>
        <Button kind="primary" onClick={() => load(source)}>
          Load again
        </Button>
        {source.from !== 'embedded' && embeddedButton}
      </FailureNote>
    );
  }
  if (loadState.phase === 'cancelled') {
    const { source } = loadState;
    return (
      <div className={css['loading']} role="status">
        <p>
          Loading {sourceName(source)} was cancelled.
          {source.from === 'url' && ' The downloaded part is kept, and loading resumes from there.'}
        </p>
        <div className={css['choices']}>
          <Button kind="primary" onClick={() => load(source)}>
            {source.from === 'url' ? 'Resume' : 'Load'}
          </Button>
          {source.from !== 'embedded' && embeddedButton}
        </div>
      </div>
    );
  }
  if (loadState.phase === 'none' && offeredUrl !== undefined)
    return (
      <div className={css['loading']}>
        <p>
          This link names a model: <code className={css['url']}>{offeredUrl}</code>. Loading it contacts that
          server.
        </p>
        <div className={css['choices']}>
          <Button kind="primary" onClick={() => load({ from: 'url', url: offeredUrl })}>
            Load the model
          </Button>
          {embeddedButton}
        </div>
      </div>
    );
  return null;
}
