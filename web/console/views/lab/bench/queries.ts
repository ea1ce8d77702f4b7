import { useQuery } from '@tanstack/react-query';
import { api, unwrap } from '../../../../api/client.ts';
import type { components } from '../../../../api/schema.d.ts';

export type BenchSummary = components['schemas']['BenchSummaries']['benches'][number];
export type BenchRecord = components['schemas']['BenchRecord'];

/** Finished benches, newest first. */
export const useBenches = () =>
  useQuery({
    queryKey: ['lab', 'benches'],
    queryFn: async () => (await unwrap(api.GET('/lab/v1/benches'))).benches,
  });

/** A finished bench with its raw times. */
export const useBench = (id: string) =>
  useQuery({
    queryKey: ['lab', 'bench', id],
    enabled: id !== '',
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
    // The client reads tuples as arrays.
    queryFn: async (): Promise<BenchRecord> =>
      (await unwrap(api.GET('/lab/v1/benches/{id}', { params: { path: { id } } }))) as BenchRecord,
  });

/** The page of a finished bench. */
export const benchPath = (id: string): string => `/console/lab/bench/${encodeURIComponent(id)}`;

/** The page that compares two finished benches. */
export const comparePath = (before: string, after: string): string =>
  `/console/lab/bench/compare?a=${encodeURIComponent(before)}&b=${encodeURIComponent(after)}`;
