import { Link } from 'wouter';
import { CopyValue } from '../../../../ui/copy.tsx';
import { formatTime } from '../../../../ui/format.ts';
import { Empty, Field, Panel, Table } from '../../../../ui/index.tsx';
import { useUrlState } from '../../../../ui/url-state.ts';
import css from './kernels.module.css';
import { manifestOf } from './manifest-facts.tsx';
import { kernelPath, shortDigest } from './paths.ts';
import type { Version } from './queries.ts';
import { SourceDiff } from './source-diff.tsx';
import { StateBadge } from '../../../../ui/state-badge.tsx';

/** All registrations of a kernel, and what differs between two of them. The selected two are in the URL. */
export function KernelVersions(props: { kernel: string; versions: readonly Version[]; shownAt: string }) {
  const { kernel, versions, shownAt } = props;
  const shownIndex = versions.findIndex(({ at }) => at === shownAt);
  const [beforeAt, setBefore] = useUrlState('before', (versions[shownIndex + 1] ?? versions.at(-1))?.at);
  const [afterAt, setAfter] = useUrlState('after', shownAt);
  const find = (at: string) => versions.find((one) => one.at === at);
  const [before, after] = [find(beforeAt), find(afterAt)];
  return (
    <Panel title={versions.length === 1 ? '1 registration' : `${versions.length} registrations`}>
      <Table
        caption={`Registrations of ${kernel}, latest first`}
        rows={versions}
        keyOf={({ at }) => at}
        isSelected={({ at }) => at === shownAt}
        columns={[
          {
            key: 'at',
            head: 'Registered',
            cell: ({ at }) =>
              at === shownAt ? (
                `${formatTime(at)} (shown)`
              ) : (
                <Link href={kernelPath(kernel, at)}>{formatTime(at)}</Link>
              ),
          },
          {
            key: 'verdict',
            head: 'Gate',
            cell: ({ accepted, reason, at }) => (
              <>
                <StateBadge state={accepted ? 'accepted' : 'rejected'} isRecorded />
                {reason !== undefined && (
                  <div className={css['why']}>
                    {reason}{' '}
                    <Link
                      href={`${kernelPath(kernel, at)}#report`}
                      aria-label={`Report of ${formatTime(at)}`}
                    >
                      Report
                    </Link>
                  </div>
                )}
              </>
            ),
          },
          {
            key: 'digest',
            head: 'Digest',
            cell: ({ digest }) => (
              <CopyValue value={digest} label="the digest">
                {shortDigest(digest)}
              </CopyValue>
            ),
          },
          {
            key: 'lines',
            head: 'Lines',
            number: true,
            cell: ({ registration: { source } }) => source.split('\n').length,
          },
          { key: 'benches', head: 'Benches', number: true, cell: ({ benches }) => benches.length },
        ]}
      />
      {versions.length === 1 ? (
        <p className={css['note']}>After a second registration under this name, the two are compared here.</p>
      ) : (
        <>
          <h3>Difference between two registrations</h3>
          <div className={css['line']}>
            <VersionSelect label="Before" versions={versions} value={beforeAt} onChange={setBefore} />
            <VersionSelect label="After" versions={versions} value={afterAt} onChange={setAfter} />
          </div>
          {before && after ? (
            <>
              <ManifestDiff before={before} after={after} />
              <SourceDiff
                before={before.registration.source}
                after={after.registration.source}
                label={`Differences between two sources of ${kernel}`}
              />
            </>
          ) : (
            <Empty title="The address names a registration that is not in the history.">
              Choose two above.
            </Empty>
          )}
        </>
      )}
    </Panel>
  );
}

function VersionSelect(props: {
  label: string;
  versions: readonly Version[];
  value: string;
  onChange: (at: string) => void;
}) {
  const { label, versions, value, onChange } = props;
  return (
    <Field label={label}>
      {(control) => (
        <select {...control} value={value} onChange={({ target }) => onChange(target.value)}>
          {versions.map(({ at, digest, accepted }) => (
            <option key={at} value={at}>
              {formatTime(at)}, {shortDigest(digest)}, {accepted ? 'accepted' : 'rejected'}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

function ManifestDiff({ before, after }: { before: Version; after: Version }) {
  const later = new Map(manifestOf(after.registration));
  const changed = manifestOf(before.registration).flatMap(([name, value]) =>
    later.get(name) === value ? [] : [{ name, value, next: later.get(name) ?? '' }],
  );
  if (changed.length === 0) return null;
  return (
    <Table
      caption="Changes of the manifest"
      rows={changed}
      keyOf={({ name }) => name}
      columns={[
        { key: 'name', head: 'Manifest', cell: ({ name }) => name },
        { key: 'before', head: 'Before', cell: ({ value }) => value },
        { key: 'after', head: 'After', cell: ({ next }) => next },
      ]}
    />
  );
}
