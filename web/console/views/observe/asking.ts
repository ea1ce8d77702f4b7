import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { api, held } from '../../api/client.ts';
import { gated } from '../../parts/gated.tsx';
import type { Query, Question } from './types.ts';

/** What can be queried, and the named questions. */
export const useSurfaces = () =>
  useQuery({
    queryKey: ['observe', 'surfaces'],
    ...gated,
    staleTime: Infinity,
    queryFn: async () => {
      const { surfaces, questions } = await held(api.GET('/observe/v1/surfaces'));
      return { surfaces, questions: questions as readonly Question[] };
    },
  });

export const useSchema = (surface: string) =>
  useQuery({
    queryKey: ['observe', 'schema', surface],
    enabled: surface !== '',
    ...gated,
    staleTime: Infinity,
    queryFn: () => held(api.GET('/observe/v1/surfaces/{surface}/schema', { params: { path: { surface } } })),
  });

/** What is asked: a query, or a question by its name. */
export type Source =
  | { readonly query: Query }
  | { readonly question: string; readonly parameters: Readonly<Record<string, unknown>> };

/** Page after page of an answer: all of them are of the moment of the first one. */
export const useAnswer = (source: Source | undefined) =>
  useInfiniteQuery({
    queryKey: ['observe', 'answer', source],
    enabled: source !== undefined,
    ...gated,
    staleTime: Infinity,
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam: cursor }) => {
      const next = cursor === undefined ? {} : { cursor };
      if (source && 'query' in source)
        return held(api.POST('/observe/v1/query', { body: { ...source.query, ...next } }));
      return held(
        api.POST('/observe/v1/questions/{name}', {
          params: { path: { name: source?.question ?? '' } },
          // Which there are differs from question to question, so that the document says nothing of them.
          body: { parameters: { ...source?.parameters } as Record<string, never>, ...next },
        }),
      );
    },
    getNextPageParam: ({ next }) => next,
  });
export type Answered = ReturnType<typeof useAnswer>;
