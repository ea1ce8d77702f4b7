import { useMemo } from 'react';
import { useSearchParams } from 'wouter';
import { type Sampling, type SamplingName, samplingFromUrl, withSampling } from './sampling.ts';

interface SamplingState {
  readonly sampling: Sampling;
  readonly set: (name: SamplingName, value: string) => void;
  readonly reset: () => void;
}

/** Sampling parameters kept in the URL, so that a link restores them; the conversation is not in the URL. */
export function useSampling(): SamplingState {
  const [search, setSearch] = useSearchParams();
  const sampling = useMemo(() => samplingFromUrl(search), [search]);
  return {
    sampling,
    set: (name, value) => setSearch((before) => withSampling(before, name, value), { replace: true }),
    reset: () => setSearch(new URLSearchParams(), { replace: true }),
  };
}
