import { join } from 'node:path';
import { lockHolder } from '../cli/data-dir-lock.ts';
import { ObserveError } from '../observe/errors.ts';
import { Observe } from '../observe/observe.ts';
import type { ObserveEnvelope, Transcripts } from '../observe/types.ts';
import { offlineTranscripts } from '../recorder/offline-transcripts.ts';
import type { SourceResponse, Source } from './source.ts';

/** Access to the data directory implies the operator credential. */
const by = 'operator';

/** Source without a host: reads a database and the racks of a data directory. Writes nothing. */
export async function offlineSource({
  database,
  dataDir,
  worker,
}: {
  readonly database: string;
  readonly dataDir: string;
  readonly worker: string;
}): Promise<Source> {
  const racks = offlineTranscripts(join(dataDir, 'recorder'), () => new Date());
  const transcripts: Transcripts = {
    readable: (whose) => {
      assertNoHost(dataDir);
      return racks.readable(whose);
    },
    read: (...access) => racks.read(...access),
  };
  const observe = await Observe.open({ database, worker, transcripts, untouched: true });
  const withWarning = (document: ObserveEnvelope): SourceResponse<ObserveEnvelope> =>
    toResponse(
      document.surface === 'transcript'
        ? { ...document, warnings: [...document.warnings, notRecordedWarning] }
        : document,
    );
  return {
    surfaces: async () => toResponse(observe.surfaces()),
    schema: async (surface) => toResponse(observe.schema(surface)),
    query: async (body) => withWarning(await observe.query(body, by)),
    ask: async (question, body) => withWarning(await observe.ask(question, body, by)),
    close: () => observe.close(),
  };
}

const notRecordedWarning = 'no host is running, so this read is not recorded in the review';

const toResponse = <Document>(document: Document): SourceResponse<Document> => ({
  document,
  text: JSON.stringify(document),
});

/** Racks of a running host must be read through the host, so that the read is recorded in the review. */
function assertNoHost(dataDir: string): void {
  const holder = lockHolder(dataDir);
  if (holder === undefined) return;
  throw new ObserveError(
    'unavailable',
    'host_is_running',
    `a host${holder} runs on the data directory ${dataDir} and owns its racks: query the host, without --database`,
  );
}
