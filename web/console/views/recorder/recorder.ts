import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { api, unwrap } from '../../../api/client.ts';
import { protectedQueryOptions } from '../../shell/protected-route.tsx';
import type { Change, Entry, RackId, Review } from './types.ts';

const keys = { all: ['recorder'], racks: ['recorder', 'racks'] } as const;

export const useRacks = () =>
  useQuery({
    queryKey: keys.racks,
    ...protectedQueryOptions,
    queryFn: () => unwrap(api.GET('/recorder/v1/racks')),
  });

export const useGrants = () =>
  useQuery({
    queryKey: ['recorder', 'grants'],
    ...protectedQueryOptions,
    queryFn: async () => (await unwrap(api.GET('/recorder/v1/grants'))).data,
  });

/** Arms or disarms a rack, or changes its policy. */
export function useRackChange(id: RackId) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: Change) =>
      unwrap(api.PUT('/recorder/v1/racks/{id}', { params: { path: { id } }, body })),
    onSuccess: () => queries.invalidateQueries({ queryKey: keys.all }),
  });
}

export function usePurge(id: RackId) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async () =>
      (await unwrap(api.DELETE('/recorder/v1/racks/{id}/history', { params: { path: { id } } }))).data,
    onSuccess: () => queries.invalidateQueries({ queryKey: keys.all }),
  });
}

/** Reads the review log page by page. The host returns the oldest entries first. @returns entries, newest first */
async function fetchReview(
  rack: string,
  signal: AbortSignal,
): Promise<{ entries: Entry[]; isComplete: boolean }> {
  const entries: Entry[] = [];
  let after: number | null = 0;
  for (let page = 0; page < maxPages && after !== null; page++) {
    const query: { after: string; limit: string; rack?: string } = {
      after: String(after),
      limit: '1000',
      ...(rack === '' ? {} : { rack }),
    };
    const { data }: Review = await unwrap(api.GET('/recorder/v1/review', { params: { query }, signal }));
    entries.push(...data.entries);
    after = data.next;
  }
  return { entries: entries.reverse(), isComplete: after === null };
}
const maxPages = 20;

export const useReview = (rack: string) =>
  useQuery({
    queryKey: ['recorder', 'review', rack],
    ...protectedQueryOptions,
    queryFn: ({ signal }) => fetchReview(rack, signal),
  });
