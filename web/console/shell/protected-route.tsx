import { useEffect, useRef } from 'react';
import { asFault } from '../../api/fault.ts';
import { session } from '../../api/session.ts';
import { Button, Empty, FaultNote } from '../../ui/index.tsx';
import { TokenFile } from './token-file.tsx';

/**
 * Query options for routes that need the bearer token. Without retries, a dismissed sign-in dialog does not open again.
 */
export const protectedQueryOptions = {
  retry: false,
  refetchOnWindowFocus: false,
  refetchOnReconnect: false,
} as const;

/**
 * Error of a route that needs the bearer token. If the token is missing, offers to enter it.
 * @param what object of the sentence "A bearer token is required to see WHAT.", for example `the racks`
 */
export function ProtectedRouteFault({
  error,
  retry,
  what,
}: {
  error: unknown;
  retry: () => void;
  what: string;
}) {
  const isTokenMissing = asFault(error).status === 401;
  const latestRetry = useRef(retry);
  useEffect(() => {
    latestRetry.current = retry;
  });
  // The token may be entered in another part of the page.
  useEffect(() => {
    if (!isTokenMissing) return;
    return session.subscribe(() => {
      if (session.isSignedIn) latestRetry.current();
    });
  }, [isTokenMissing]);
  if (!isTokenMissing) return <FaultNote error={error} retry={retry} />;
  return (
    <Empty title={`A bearer token is required to see ${what}.`}>
      <p>
        The token is in <TokenFile />.
      </p>
      <Button kind="primary" onClick={retry}>
        Sign in
      </Button>
    </Empty>
  );
}
