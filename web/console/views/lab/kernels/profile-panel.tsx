import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { api, unwrap } from '../../../../api/client.ts';
import type { components } from '../../../../api/schema.d.ts';
import type { Diagnostic } from '../../../../ui/code-editor.tsx';
import { Button, FaultNote, Field, Panel, Row, Table } from '../../../../ui/index.tsx';
import css from './kernels.module.css';

export type Profile = components['schemas']['LabProfile'];
type ProfiledKernel = Profile['profile'];
type Site = ProfiledKernel['sites'][number];
type Lanes = 8 | 16 | 32 | 64;

const lanesOffered: readonly Lanes[] = [8, 16, 32, 64];

/** What a registered kernel asks of memory, beside the built-in kernels, with hints. */
export function ProfilePanel(props: {
  kernel: string;
  /** Called with the marks beside the source. */
  onProfile: (profile: Profile) => void;
  goTo: (place: { line: number; column: number }) => void;
}) {
  const { kernel, onProfile, goTo } = props;
  const [lanes, setLanes] = useState<Lanes>(32);
  const [phase, setPhase] = useState<'decode' | 'prefill'>('decode');
  const { mutate, data, isPending, error } = useMutation({
    mutationFn: async () => {
      const profile = await unwrap(api.POST('/lab/v1/profile', { body: { kernel, lanes, phase } }));
      onProfile(profile);
      return profile;
    },
  });
  const rows = data ? [data.profile, ...(data.builtin ?? [])] : [];
  return (
    <Panel
      title={`Profile of ${kernel}`}
      tools={
        <Button busy={isPending} onClick={() => mutate()}>
          Profile
        </Button>
      }
    >
      <p className={css['note']}>
        A few workgroups are emulated as on a GPU with subgroups of this size. Nothing is timed: the bench
        does that.
      </p>
      <Row>
        <Field label="Lanes of a subgroup">
          {(control) => (
            <select
              {...control}
              value={lanes}
              onChange={({ target }) => setLanes(Number(target.value) as Lanes)}
            >
              {lanesOffered.map((count) => (
                <option key={count}>{count}</option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Input">
          {(control) => (
            <select
              {...control}
              value={phase}
              onChange={({ target }) => setPhase(target.value === 'prefill' ? 'prefill' : 'decode')}
            >
              <option value="decode">one token</option>
              <option value="prefill">a prompt</option>
            </select>
          )}
        </Field>
      </Row>
      {error !== null && <FaultNote error={error} />}
      {data && (
        <>
          <div role="status">
            {[data.case, ...Object.entries(data.overrides).map(([name, value]) => `${name}=${value}`)].join(
              ', ',
            )}
            , subgroups of {data.lanes}: {data.hints.length === 0 ? 'no hints' : `${data.hints.length} hints`}
            .
          </div>
          {data.hints.length > 0 && (
            <Table
              caption="Hints, the most valuable first"
              rows={data.hints.map((hint, index) => ({ ...hint, key: `${index}` }))}
              keyOf={({ key }) => key}
              columns={[
                {
                  key: 'line',
                  head: 'Line',
                  cell: ({ line }) => (
                    <Button onClick={() => goTo({ line, column: 1 })} aria-label={`Go to line ${line}`}>
                      {line}
                    </Button>
                  ),
                },
                {
                  key: 'message',
                  head: 'Hint',
                  cell: ({ code, message }) => (
                    <span className={css['finding']}>
                      {message} <code className={css['note']}>{code}</code>
                    </span>
                  ),
                },
              ]}
            />
          )}
          <Table
            caption="A workgroup, and the built-in kernels"
            rows={rows.map((row, index) => ({ ...row, key: `${index}` }))}
            keyOf={({ key }) => key}
            columns={[
              { key: 'name', head: 'Kernel', cell: ({ name }) => name },
              { key: 'workgroups', head: 'Workgroups', number: true, cell: (one) => one.workgroups },
              { key: 'threads', head: 'Threads', number: true, cell: (one) => one.workgroup_size },
              { key: 'ready', head: 'Ready', number: true, cell: (one) => percent(one.occupancy) },
              { key: 'memory', head: 'Memory, bytes', number: true, cell: (one) => one.workgroup_bytes },
              {
                key: 'fetches',
                head: 'Fetches, bytes',
                number: true,
                cell: (one) => Math.round(fetchedBytes(one)),
              },
              {
                key: 'needed',
                head: 'Useful reads',
                number: true,
                cell: (one) => percent(neededFraction(one)),
              },
              {
                key: 'banks',
                head: 'Bank conflict',
                number: true,
                cell: (one) => `${one.bank_conflict}-way`,
              },
              { key: 'barriers', head: 'Barriers', number: true, cell: (one) => Math.round(one.barriers) },
              { key: 'lanes', head: 'Active lanes', number: true, cell: (one) => percent(one.active_lanes) },
              {
                key: 'intensity',
                head: 'FLOP/byte',
                number: true,
                cell: (one) => (data.flops / Math.max(1, one.fetched_bytes)).toPrecision(2),
              },
            ]}
          />
        </>
      )}
    </Panel>
  );
}

const percent = (part: number): string => `${Math.round(100 * part)}%`;
const fetchedBytes = ({ fetched }: ProfiledKernel): number =>
  fetched.reduce((sum, { bytes }) => sum + bytes, 0);
const neededFraction = ({ reads }: ProfiledKernel): number =>
  reads.touched_sectors === 0 ? 1 : reads.needed_sectors / reads.touched_sectors;

/** Marks beside the source: hints as warnings, all other accesses and barriers as information. */
export function profileDiagnostics({ profile, hints }: Profile): readonly Diagnostic[] {
  const mark = (
    line: number,
    column: number,
    severity: Diagnostic['severity'],
    message: string,
  ): Diagnostic => ({
    line,
    column,
    severity,
    message,
    source: 'profile',
  });
  return [
    ...hints.map(({ line, message }) => mark(line, 1, 'warning', message)),
    ...profile.sites.map((site) => mark(site.line, site.column, 'info', siteText(site))),
  ];
}

function siteText(site: Site): string {
  const count = Number(site.requests.toPrecision(3));
  if (site.kind === 'barrier') return `${count} x barrier`;
  const lanes = site.active_lanes < 0.995 ? `, ${percent(site.active_lanes)} of the lanes` : '';
  const cost =
    site.bank_conflict === undefined
      ? `${Math.round(site.needed_sectors ?? 0)} sectors needed, ${Math.round(site.touched_sectors ?? 0)} touched`
      : `${site.bank_conflict}-way bank conflict`;
  return `${count} x ${site.kind} ${site.name}, ${site.bytes} bytes a lane: ${cost}${lanes}`;
}
