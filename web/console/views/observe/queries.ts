import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { api, unwrap } from '../../../api/client.ts';
import { protectedQueryOptions } from '../../shell/protected-route.tsx';
import type { Query, Question } from './types.ts';

/** The surfaces that can be queried, and the predefined questions. */
export const useSurfaces = () =>
  useQuery({
    queryKey: ['observe', 'surfaces'],
    ...protectedQueryOptions,
    staleTime: Infinity,
    queryFn: async () => {
      const { surfaces, questions } = await unwrap(api.GET('/observe/v1/surfaces'));
      return { surfaces, questions: questions as readonly Question[] };
    },
  });

export const useSchema = (surface: string) =>
  useQuery({
    queryKey: ['observe', 'schema', surface],
    enabled: surface !== '',
    ...protectedQueryOptions,
    staleTime: Infinity,
    queryFn: () =>
      unwrap(api.GET('/observe/v1/surfaces/{surface}/schema', { params: { path: { surface } } })),
  });

/** A query, or a predefined question by name. */
export type Source =
  | { readonly query: Query }
  | { readonly question: string; readonly parameters: Readonly<Record<string, unknown>> };

/** Pages of a result; all pages show the state at the time of the first one. */
export const useResult = (source: Source | undefined) =>
  useInfiniteQuery({
    queryKey: ['observe', 'answer', source],
    enabled: source !== undefined,
    ...protectedQueryOptions,
    staleTime: Infinity,
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam: cursor }) => {
      const next = cursor === undefined ? {} : { cursor };
      if (source && 'query' in source)
        return unwrap(api.POST('/observe/v1/query', { body: { ...source.query, ...next } }));
      return unwrap(
        api.POST('/observe/v1/questions/{name}', {
          params: { path: { name: source?.question ?? '' } },
          // The OpenAPI document leaves parameters open, because they differ by question.
          body: { parameters: { ...source?.parameters } as Record<string, never>, ...next },
        }),
      );
    },
    getNextPageParam: ({ next }) => next,
  });
export type ResultQuery = ReturnType<typeof useResult>;
