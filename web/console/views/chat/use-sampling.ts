import { useMemo } from 'react';
import { useSearchParams } from 'wouter';
import { type Sampling, type SamplingName, samplingOf, withSampling } from './sampling.ts';

interface SamplingState {
  readonly sampling: Sampling;
  readonly set: (name: SamplingName, value: string) => void;
  readonly reset: () => void;
}

/** In the URL, so that a link brings the same drawing; the conversation is not. */
export function useSampling(): SamplingState {
  const [search, setSearch] = useSearchParams();
  const sampling = useMemo(() => samplingOf(search), [search]);
  return {
    sampling,
    set: (name, value) => setSearch((before) => withSampling(before, name, value), { replace: true }),
    reset: () => setSearch(new URLSearchParams(), { replace: true }),
  };
}
