import { useEffect, useRef } from 'react';
import { asFault } from '../api/fault.ts';
import { bearer } from '../api/token.ts';
import { Button, Empty, FaultNote } from './index.tsx';

/** For queries of routes that want the bearer: the dialog of one that was sent away does not come back by itself. */
export const gated = { retry: false, refetchOnWindowFocus: false, refetchOnReconnect: false } as const;

/**
 * Why a route behind the bearer gave nothing; where the token is what is missing, the way to tell it.
 * @param what within a sentence: `the racks`
 */
export function GatedFault({ error, retry, what }: { error: unknown; retry: () => void; what: string }) {
  const isLocked = asFault(error).status === 401;
  const again = useRef(retry);
  useEffect(() => {
    again.current = retry;
  });
  // It may be told elsewhere, for another part of the page.
  useEffect(() => {
    if (!isLocked) return;
    return bearer.subscribe(() => {
      if (bearer.token !== undefined) again.current();
    });
  }, [isLocked]);
  if (!isLocked) return <FaultNote error={error} retry={retry} />;
  return (
    <Empty title={`The host shows ${what} only with its bearer token.`}>
      <p>
        It is in the file <code>bearer.token</code> of the host's data directory.
      </p>
      <Button kind="primary" onClick={retry}>
        Enter the bearer token
      </Button>
    </Empty>
  );
}
