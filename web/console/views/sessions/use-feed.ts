import { useQuery } from '@tanstack/react-query';
import { api, unwrap } from '../../../api/client.ts';

/** Choices for the maximum number of ended sessions. */
export const limitChoices = ['50', '200', '1000', '10000'] as const;
export const defaultLimit = '200';

/** The sessions feed, in the order of the host: running tasks and runs, external sessions, the host, ended sessions. */
export const useFeed = (limit: string = defaultLimit) =>
  useQuery({
    queryKey: ['agent', 'sessions', limit],
    queryFn: async () =>
      (await unwrap(api.GET('/agent/v1/sessions', { params: { query: { limit } } }))).sessions,
  });
