import { useQuery } from '@tanstack/react-query';
import { api, held } from '../../api/client.ts';

/** How many that have ended. */
export const limits = ['50', '200', '1000', '10000'] as const;
export const usualLimit = '200';

/** The feed in the host's order: what is at work, work from elsewhere, the host, then what has ended. */
export const useFeed = (limit: string = usualLimit) =>
  useQuery({
    queryKey: ['agent', 'sessions', limit],
    queryFn: async () =>
      (await held(api.GET('/agent/v1/sessions', { params: { query: { limit } } }))).sessions,
    refetchInterval: 2000,
  });
