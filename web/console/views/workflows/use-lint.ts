import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import type { LintReport } from '../../agents/schemas.ts';
import { api, unwrap } from '../../../api/client.ts';

const debounceMs = 350;

/** Lint findings of the host for a source, debounced. */
export function useLint(source: string) {
  const [lintedSource, setLintedSource] = useState(source);
  useEffect(() => {
    const timer = setTimeout(() => setLintedSource(source), debounceMs);
    return () => clearTimeout(timer);
  }, [source]);
  const lint = useQuery({
    queryKey: ['lint', lintedSource],
    queryFn: ({ signal }): Promise<LintReport> =>
      unwrap(
        api.POST('/agent/v1/workflows/{name}/lint', {
          // With a body, the name is ignored. An empty body would lint the stored workflow.
          params: { path: { name: 'draft' } },
          body: lintedSource === '' ? '\n' : lintedSource,
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
    lintedSource,
    report: lint.data,
    error: lint.error,
    isCurrent: lintedSource === source && !lint.isPlaceholderData && !lint.isFetching,
  };
}
