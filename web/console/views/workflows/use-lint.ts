import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import type { LintReport } from '../../agents/shapes.ts';
import { api, held } from '../../api/client.ts';

const afterTypingMs = 350;

/** Lint findings of the host for a source, debounced. */
export function useLint(source: string) {
  const [asked, setAsked] = useState(source);
  useEffect(() => {
    const waiting = setTimeout(() => setAsked(source), afterTypingMs);
    return () => clearTimeout(waiting);
  }, [source]);
  const lint = useQuery({
    queryKey: ['lint', asked],
    queryFn: ({ signal }): Promise<LintReport> =>
      held(
        api.POST('/agent/v1/workflows/{name}/lint', {
          // With a body, the name is ignored. An empty body would lint the stored workflow.
          params: { path: { name: 'draft' } },
          body: asked === '' ? '\n' : asked,
          bodySerializer: (text) => text,
          headers: { 'content-type': 'text/plain' },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
    gcTime: 0,
  });
  return {
    /** The source that the report is for, or is being made for. */
    asked,
    report: lint.data,
    error: lint.error,
    isCurrent: asked === source && !lint.isPlaceholderData && !lint.isFetching,
  };
}
