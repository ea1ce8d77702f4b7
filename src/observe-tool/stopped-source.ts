import { join } from 'node:path';
import { holderOf } from '../cli/data-dir-lock.ts';
import { ObserveError } from '../observe/errors.ts';
import { Observe } from '../observe/open.ts';
import type { ObserveEnvelope, Transcripts } from '../observe/types.ts';
import { stoppedTranscripts } from '../recorder/stopped.ts';
import type { Answered, Source } from './source.ts';

/** Access to the data directory implies the operator credential. */
const by = 'operator';

/** Source without a host: reads a database and the racks of a data directory. Writes nothing. */
export async function stoppedSource({
  database,
  dataDir,
  worker,
}: {
  readonly database: string;
  readonly dataDir: string;
  readonly worker: string;
}): Promise<Source> {
  const racks = stoppedTranscripts(join(dataDir, 'recorder'), () => new Date());
  const transcripts: Transcripts = {
    readable: (whose) => {
      refuseBesideHost(dataDir);
      return racks.readable(whose);
    },
    read: (...access) => racks.read(...access),
  };
  const observe = await Observe.open({ database, worker, transcripts, untouched: true });
  const answered = (document: ObserveEnvelope): Answered<ObserveEnvelope> =>
    asText(
      document.surface === 'transcript'
        ? { ...document, warnings: [...document.warnings, notInReview] }
        : document,
    );
  return {
    surfaces: async () => asText(observe.surfaces()),
    schema: async (surface) => asText(observe.schema(surface)),
    query: async (body) => answered(await observe.query(body, by)),
    ask: async (question, body) => answered(await observe.ask(question, body, by)),
    close: () => observe.close(),
  };
}

const notInReview = 'no host is running, so this read is not recorded in the review';

const asText = <Document>(document: Document): Answered<Document> => ({
  document,
  text: JSON.stringify(document),
});

/** Racks of a running host must be read through the host, so that the read is recorded in the review. */
function refuseBesideHost(dataDir: string): void {
  const holder = holderOf(dataDir);
  if (holder === undefined) return;
  throw new ObserveError(
    'unavailable',
    'host_is_running',
    `a host${holder} runs on the data directory ${dataDir} and owns its racks: query the host, without --database`,
  );
}
