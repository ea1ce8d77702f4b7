import { useQueryClient } from '@tanstack/react-query';
import { createContext, type ReactNode, use, useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { asFault, faultOf } from '../../../api/fault.ts';
import { fetchRaw } from '../../../api/client.ts';
import { readJsonLines } from '../../../api/lines.ts';
import type { BenchLine, BenchRequest, BenchRun } from './bench/runs.ts';

interface BenchRuns {
  /** Runs of this page, latest last. */
  readonly runs: readonly BenchRun[];
  readonly running: BenchRun | undefined;
  readonly start: (request: BenchRequest) => void;
  /** Measures the components in a few seconds, without a verdict. */
  readonly measure: () => void;
  readonly stop: () => void;
}

const Runs = createContext<BenchRuns | undefined>(undefined);

export function useBenchRuns(): BenchRuns {
  const runs = use(Runs);
  if (!runs) throw new Error('outside of the lab');
  return runs;
}

/** The smallest bench: only its component times are used, not its verdict. */
const measureRequest: BenchRequest = { rounds: 1, new_tokens: 1, contexts: [128], prompt_tokens: 1 };

/** Keeps benches running across tabs of the lab; they are aborted when the lab is left. */
export function BenchRunsProvider({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const [runs, setRuns] = useState<readonly BenchRun[]>([]);
  const currentAbort = useRef<AbortController>(undefined);
  useEffect(() => () => currentAbort.current?.abort(), []);

  const run = useCallback(
    async (request: BenchRequest, isMeasureOnly: boolean) => {
      currentAbort.current?.abort();
      const controller = new AbortController();
      currentAbort.current = controller;
      const id = Date.now();
      const updateRun = (change: Partial<BenchRun> | ((one: BenchRun) => Partial<BenchRun>)) =>
        setRuns((all) =>
          all.map((one) =>
            one.id === id ? { ...one, ...(typeof change === 'function' ? change(one) : change) } : one,
          ),
        );
      setRuns((all) => [...all, { id, request, isMeasureOnly, startedAt: id, stage: 'waiting', rounds: [] }]);
      try {
        const response = await fetchRaw('/lab/v1/bench', {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ ...request, stream: true }),
          signal: controller.signal,
        });
        for await (const line of readJsonLines<BenchLine>(response)) {
          if ('error' in line) throw faultOf(response, line);
          if (line.stage === 'round')
            updateRun(({ rounds }) => ({ stage: 'round', rounds: [...rounds, line] }));
          else updateRun({ stage: line.stage, ...(line.stage === 'done' ? { result: line.result } : {}) });
        }
      } catch (error) {
        updateRun(controller.signal.aborted ? { wasStopped: true } : { error: asFault(error) });
      } finally {
        updateRun((one) => ({
          endedAt: Date.now(),
          ...((one.result ?? one.error ?? one.wasStopped)
            ? {}
            : { error: new Error('The connection to the host was lost before the bench finished.') }),
        }));
        await Promise.all(
          ['graph', 'benches'].map((name) => queries.invalidateQueries({ queryKey: ['lab', name] })),
        );
      }
    },
    [queries],
  );

  const value = useMemo<BenchRuns>(
    () => ({
      runs,
      running: runs.find(({ endedAt }) => endedAt === undefined),
      start: (request) => void run(request, false),
      measure: () => void run(measureRequest, true),
      stop: () => currentAbort.current?.abort(),
    }),
    [runs, run],
  );
  return <Runs value={value}>{children}</Runs>;
}
