import type { ReactNode } from 'react';
import { asFault } from '../../api/fault.ts';
import { FaultNote, Loading } from '../../ui/index.tsx';

interface Read<Data> {
  readonly data: Data | undefined;
  readonly error: unknown;
  readonly refetch: () => unknown;
}

/**
 * What was read, while it loads, or why it was refused. A gateway that does not answer is reported once, by the banner of
 * the page: what was read before stays.
 */
export function Loaded<Data>({
  read,
  what,
  children,
}: {
  read: Read<Data>;
  what: string;
  children: (data: Data) => ReactNode;
}) {
  const { data, error, refetch } = read;
  if (data !== undefined) return children(data);
  const { status } = asFault(error);
  // A refused token leads to the sign-in.
  if (error === null || status === 0 || status === 401) return <Loading what={what} />;
  return <FaultNote error={error} retry={() => void refetch()} />;
}
