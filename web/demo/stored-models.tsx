import { useEffect, useState } from 'react';
import { errorMessage } from '../../src/util/error-message.ts';
import { formatBytes } from '../ui/format.ts';
import { Badge, Button } from '../ui/index.tsx';
import { keptModels, forgetModel } from '../engine/index.ts';
import type { KeptModel } from '../engine/types.ts';
import css from './demo.module.css';
import type { LoadState, Source } from './loader.ts';

interface StorageState {
  readonly models: readonly KeptModel[];
  readonly usedBytes: number | undefined;
  readonly quotaBytes: number | undefined;
}

async function readStorage(): Promise<StorageState> {
  const [models, estimate] = await Promise.all([keptModels(), navigator.storage.estimate()]);
  return { models, usedBytes: estimate.usage, quotaBytes: estimate.quota };
}

/** Models downloaded from URLs and stored in the browser's private file system (OPFS) of this origin. */
export function StoredModels({ loaded, load }: { loaded: LoadState; load: (source: Source) => void }) {
  const [storage, setStorage] = useState<StorageState>();
  const [fault, setFault] = useState<string>();
  const [removals, setRemovals] = useState(0);
  const { phase } = loaded;
  const inUse = loaded.phase === 'ready' || loaded.phase === 'loading' ? loaded.source : undefined;

  // The list changes when loading ends, in any way, and when a model is removed.
  useEffect(() => {
    let isCurrent = true;
    const refresh = async () => {
      try {
        const next = await readStorage();
        if (isCurrent) setStorage(next);
      } catch (error) {
        if (isCurrent) setFault(errorMessage(error));
      }
    };
    void refresh();
    return () => {
      isCurrent = false;
    };
  }, [phase, removals]);

  const remove = (url: string) => {
    setFault(undefined);
    forgetModel(url)
      .catch((error: unknown) => setFault(errorMessage(error)))
      .finally(() => setRemovals((count) => count + 1));
  };

  if (fault === undefined && (storage === undefined || storage.models.length === 0)) return null;
  return (
    <section aria-label="Models stored in this browser">
      <h3>Stored in this browser</h3>
      {fault !== undefined && (
        <p className={css['wrong']} role="alert">
          {fault}
        </p>
      )}
      <ul className={css['kept']}>
        {storage?.models.map(({ url, bytes, whole }) => {
          const isInUse = inUse?.from === 'url' && inUse.url === url;
          return (
            <li key={url}>
              <span className={css['url']}>{url}</span>
              <span className={css['choices']}>
                <span className={css['quiet']}>{formatBytes(bytes)}</span>
                {!whole && <Badge tone="warn">Incomplete</Badge>}
                {isInUse ? (
                  <Badge tone="good">In use</Badge>
                ) : (
                  <>
                    <Button
                      onClick={() => load({ from: 'url', url })}
                      aria-label={`${whole ? 'Load' : 'Resume'} ${url}`}
                    >
                      {whole ? 'Load' : 'Resume'}
                    </Button>
                    <Button kind="danger" onClick={() => remove(url)} aria-label={`Remove ${url}`}>
                      Remove
                    </Button>
                  </>
                )}
              </span>
            </li>
          );
        })}
      </ul>
      {storage?.usedBytes !== undefined && storage.quotaBytes !== undefined && (
        <p className={css['quiet']}>
          {formatBytes(storage.usedBytes)} of {formatBytes(storage.quotaBytes)} that the browser allows this
          site.
        </p>
      )}
    </section>
  );
}
