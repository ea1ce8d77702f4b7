import { useQuery } from '@tanstack/react-query';
import { api, unwrap } from '../../api/client.ts';

/** Counts of what waits for a person. */
export interface WaitingCounts {
  /** Changes that wait for approval. */
  readonly pending: number;
  /** Runs at a gate that only a person opens: for input, or armed. */
  readonly runs: number;
}

/**
 * What waits for a person; undefined until it is known.
 */
export const useWaiting = () =>
  useQuery({
    queryKey: ['waiting'],
    retry: false,
    queryFn: async (): Promise<WaitingCounts> => {
      const [changes, { sessions }] = await Promise.all([
        unwrap(api.GET('/agent/v1/pending')),
        unwrap(api.GET('/agent/v1/sessions', { params: { query: { limit: '1' } } })),
      ]);
      const isAtGate = ({ kind, waiting_on: on }: (typeof sessions)[number]) =>
        kind === 'run' && (on === 'input' || on === 'armed');
      return { pending: changes.length, runs: sessions.filter(isAtGate).length };
    },
  });
