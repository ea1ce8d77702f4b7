import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { api, held } from '../../api/client.ts';
import { gated } from '../../parts/gated.tsx';
import type { Change, Entry, RackId, Review } from './types.ts';

const keys = { all: ['recorder'], racks: ['recorder', 'racks'] } as const;
/** Polling interval: armed racks receive events. */
const everySome = ({ state }: { state: { status: string } }) => (state.status === 'error' ? false : 3000);

export const useRacks = () =>
  useQuery({
    queryKey: keys.racks,
    ...gated,
    refetchInterval: everySome,
    queryFn: () => held(api.GET('/recorder/v1/racks')),
  });

export const useGrants = () =>
  useQuery({
    queryKey: ['recorder', 'grants'],
    ...gated,
    queryFn: async () => (await held(api.GET('/recorder/v1/grants'))).data,
  });

/** Arms or disarms a rack, or changes its policy. */
export function useRackChange(id: RackId) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: Change) =>
      held(api.PUT('/recorder/v1/racks/{id}', { params: { path: { id } }, body })),
    onSuccess: () => queries.invalidateQueries({ queryKey: keys.all }),
  });
}

export function usePurge(id: RackId) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async () =>
      (await held(api.DELETE('/recorder/v1/racks/{id}/history', { params: { path: { id } } }))).data,
    onSuccess: () => queries.invalidateQueries({ queryKey: keys.all }),
  });
}

/** Reads the review log page by page. The host returns the oldest entries first. @returns entries, newest first */
async function wholeReview(
  rack: string,
  signal: AbortSignal,
): Promise<{ entries: Entry[]; isWhole: boolean }> {
  const entries: Entry[] = [];
  let after: number | null = 0;
  for (let page = 0; page < mostPages && after !== null; page++) {
    const query: { after: string; limit: string; rack?: string } = {
      after: String(after),
      limit: '1000',
      ...(rack === '' ? {} : { rack }),
    };
    const { data }: Review = await held(api.GET('/recorder/v1/review', { params: { query }, signal }));
    entries.push(...data.entries);
    after = data.next;
  }
  return { entries: entries.reverse(), isWhole: after === null };
}
const mostPages = 20;

export const useReview = (rack: string) =>
  useQuery({
    queryKey: ['recorder', 'review', rack],
    ...gated,
    queryFn: ({ signal }) => wholeReview(rack, signal),
  });
