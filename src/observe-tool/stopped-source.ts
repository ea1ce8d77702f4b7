import { join } from 'node:path';
import { holderOf } from '../cli/data-dir-lock.ts';
import { ObserveError } from '../observe/errors.ts';
import { Observe } from '../observe/open.ts';
import type { ObserveEnvelope, Transcripts } from '../observe/types.ts';
import { stoppedTranscripts } from '../recorder/stopped.ts';
import type { Answered, Source } from './source.ts';

/** Whoever may read the data directory has the operator's credential. */
const by = 'operator';

/** Without a host: a database, and the racks of a data directory. Nothing is written anywhere. */
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

const notInReview =
  'no host is running that could write it down: that this was read does not stand in the review';

const asText = <Document>(document: Document): Answered<Document> => ({
  document,
  text: JSON.stringify(document),
});

/** What a host keeps is read through it, so that it stands in the review. */
function refuseBesideHost(dataDir: string): void {
  const holder = holderOf(dataDir);
  if (holder === undefined) return;
  throw new ObserveError(
    'unavailable',
    'host_is_running',
    `a host${holder} has the data directory ${dataDir}, and with it the racks: ask it, without --database`,
  );
}
