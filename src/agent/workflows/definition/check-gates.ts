import { agentEventTypes } from '../../shapes/agent-event.ts';
import { isRecord } from '../../../util/json.ts';
import type { Draft, DraftStep } from './draft.ts';
import type { Findings } from './findings.ts';
import { maxSchemaCost, computeSchemaCost, findSchemaFault } from './json-schema.ts';
import { suggestName } from './near-miss.ts';
import { findCronFault, findTimeZoneFault } from './schedule.ts';
import type { Path } from './toml-document.ts';

/** Signals of the host that gates of the kind `event` can wait for. Users send `user.<name>`. */
const hostSignalNames: readonly string[] = [...agentEventTypes, 'session.ended', 'session.lost'];

/** Checks gates, the schedule, schemas and `output.from`. */
export function checkGates({ steps, document }: Draft, findings: Findings): void {
  const entry = document.value['entry'];
  if (isRecord(entry) && entry['kind'] === 'schedule') checkSchedule(entry, findings);
  const schemas = new SchemaChecker(findings);
  for (const step of steps) {
    const path = ['steps', step.index];
    if (step.output_schema !== undefined) schemas.check(step.output_schema, [...path, 'output_schema']);
    if (step.gate !== undefined) checkGate(step.gate, [...path, 'gate'], schemas, findings);
  }
  const output = document.value['output'];
  const from = isRecord(output) ? output['from'] : undefined;
  const ids = steps.flatMap(({ id }) => id ?? []);
  if (typeof from === 'string' && !ids.includes(from))
    findings.error(
      'unknown_step',
      ['output', 'from'],
      `there is no step '${from.slice(0, 80)}'${suggestName(from, ids)}`,
    );
}

function checkGate(
  gate: NonNullable<DraftStep['gate']>,
  path: Path,
  schemas: SchemaChecker,
  findings: Findings,
): void {
  if (gate.kind === 'input' && gate.schema !== undefined) {
    const at = [...path, 'schema'];
    schemas.check(gate.schema, at);
    const type = gate.schema['type'];
    if (type !== undefined && type !== 'object')
      findings.error(
        'bad_schema',
        [...at, 'type'],
        'what resumes a run is an object of inputs: type = "object"',
      );
  }
  if (gate.kind === 'time') {
    const { after_secs, until } = gate;
    if ((after_secs === undefined) === (until === undefined))
      findings.error('bad_gate', path, 'a time gate has one of after_secs and until');
    if (until !== undefined && !isInstant(until))
      findings.error(
        'bad_gate',
        [...path, 'until'],
        'expected a time with its offset, as in 2030-01-31T09:00:00Z',
      );
  }
  if (gate.kind === 'event' && !hostSignalNames.includes(gate.name) && !/^user\.[\w.-]+$/.test(gate.name))
    findings.error(
      'unknown_event',
      [...path, 'name'],
      `there is no event '${gate.name.slice(0, 80)}'${suggestName(gate.name, hostSignalNames) || `: use user.NAME, or one of ${hostSignalNames.join(', ')}`}`,
    );
}

const isInstant = (text: string) =>
  /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/i.test(text) &&
  !Number.isNaN(Date.parse(text));

/** Checks the schemas of a workflow. Their total cost is limited, because all of them are compiled. */
class SchemaChecker {
  readonly #findings: Findings;
  #cost = 0;

  constructor(findings: Findings) {
    this.#findings = findings;
  }

  check(schema: Readonly<Record<string, unknown>>, path: Path): void {
    this.#cost += computeSchemaCost(schema);
    const fault =
      this.#cost > maxSchemaCost
        ? 'the schemas of the workflow are too large together: use at most about 4000 values, and patterns with small repetitions'
        : findSchemaFault(schema);
    if (fault !== undefined) this.#findings.error('bad_schema', path, fault);
  }
}

function checkSchedule({ cron, tz }: Record<string, unknown>, findings: Findings): void {
  const cronError = typeof cron === 'string' && cron !== '' ? findCronFault(cron) : undefined;
  if (cronError !== undefined)
    findings.error(
      cronError.includes('never comes') ? 'never_fires' : 'bad_cron',
      ['entry', 'cron'],
      cronError,
    );
  const timeZoneError = typeof tz === 'string' && tz !== '' ? findTimeZoneFault(tz) : undefined;
  if (timeZoneError !== undefined) findings.error('unknown_time_zone', ['entry', 'tz'], timeZoneError);
}
