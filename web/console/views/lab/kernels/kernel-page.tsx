import { useMutation } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { Link, Redirect, useLocation } from 'wouter';
import { api, Fault, unwrap } from '../../../../api/client.ts';
import { CodeEditor, type Diagnostic } from '../../../../ui/code-editor.tsx';
import { CopyValue } from '../../../../ui/copy.tsx';
import { formatTime } from '../../../../ui/format.ts';
import { Button, Confirm, Empty, Facts, FaultNote, Loading, Panel } from '../../../../ui/index.tsx';
import { useUrlState } from '../../../../ui/url-state.ts';
import { BenchHistory } from '../bench/bench-history.tsx';
import { BindForm } from './bind-form.tsx';
import { BoundComponents } from './bound-components.tsx';
import { GateReport, reportDiagnostics } from './gate-report.tsx';
import { KernelVersions } from './kernel-versions.tsx';
import css from './kernels.module.css';
import { directives } from './manifest.ts';
import { ManifestFacts } from './manifest-facts.tsx';
import { useOpenInWorkbench } from './open-in-workbench.tsx';
import { kernelPath, workbenchPath } from './paths.ts';
import { profileDiagnostics, ProfilePanel } from './profile-panel.tsx';
import { useOps, useParts, useRefreshLab, useVersion, type Version, useVersions } from './queries.ts';
import { StateBadge } from '../../../../ui/state-badge.tsx';

/** A kernel by its name or by a digest of it, also one that was rejected, replaced or deleted. */
export function KernelPage({ kernel }: { kernel: string }) {
  const versions = useVersions(kernel);
  const ops = useOps();
  if (versions.error) {
    if (!(versions.error instanceof Fault && versions.error.code === 'unknown_kernel'))
      return <FaultNote error={versions.error} retry={() => void versions.refetch()} />;
    // Earlier versions of the console had the workbench of an op at this address.
    if (ops.data?.some(({ op }) => op === kernel)) return <Redirect to={workbenchPath(kernel)} replace />;
    return (
      <Empty title={`No kernel ${kernel} was registered on this host.`}>
        <Link href="/console/lab/kernels">All registered kernels</Link> are listed with their names and
        digests. A kernel of another host comes with its <Link href="/console/lab/configs">config</Link>.
      </Empty>
    );
  }
  if (!versions.data) return <Loading what={`the kernel ${kernel}`} />;
  return (
    <Registrations kernel={versions.data.name ?? kernel} digest={kernel} versions={versions.data.versions} />
  );
}

/** @param props.digest shown if the URL names no registration; any other text selects the last one */
function Registrations(props: { kernel: string; digest: string; versions: readonly Version[] }) {
  const { kernel, digest, versions } = props;
  const [at] = useUrlState('version');
  const shown =
    versions.find((one) => one.at === at) ?? versions.find((one) => one.digest === digest) ?? versions[0];
  if (!shown) return <Empty title={`${kernel} has no registration.`}>Register it in the workbench.</Empty>;
  const isLast = shown === versions[0];
  return (
    <div className={css['view']}>
      <Summary kernel={kernel} shown={shown} last={versions[0] ?? shown} />
      <Registration key={shown.at} kernel={kernel} shown={shown} isLast={isLast} />
      <KernelVersions kernel={kernel} versions={versions} shownAt={shown.at} />
      <BenchHistory kernel={kernel} />
    </div>
  );
}

function Summary({ kernel, shown, last }: { kernel: string; shown: Version; last: Version }) {
  const [, navigate] = useLocation();
  const refresh = useRefreshLab();
  const parts = useParts();
  const workbench = useOpenInWorkbench();
  const [isDeleting, setDeleting] = useState(false);
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE('/lab/v1/kernels/{name}', { params: { path: { name: kernel } } })),
    onSuccess: async () => {
      setDeleting(false);
      await refresh();
      navigate('/console/lab/kernels');
    },
    onError: () => setDeleting(false),
  });
  const registered = parts.data?.kernels.find(({ name }) => name === kernel);
  const isLast = shown.at === last.at;
  const reason = isLast ? (registered?.reason ?? shown.reason) : shown.reason;
  return (
    <Panel
      title={
        <>
          {kernel}{' '}
          {isLast && registered ? (
            <StateBadge state={registered.state} />
          ) : (
            <StateBadge state={shown.accepted ? 'accepted' : 'rejected'} isRecorded />
          )}
        </>
      }
      tools={
        <>
          <Link href="/console/lab/kernels">All kernels</Link>
          <Button onClick={() => workbench.open({ registration: shown.registration })}>
            Edit in the workbench
          </Button>
          {registered && (
            <Button kind="danger" onClick={() => setDeleting(true)}>
              Delete ...
            </Button>
          )}
        </>
      }
    >
      {reason !== undefined && (
        <p className={css['reason']}>
          {reason} <a href="#report">Full report</a>
        </p>
      )}
      {!isLast && (
        <p role="status">
          This is an earlier registration. <Link href={kernelPath(kernel)}>Show the last one</Link>.
        </p>
      )}
      {parts.data && !registered && (
        <p role="status">
          The kernel was deleted. Its registrations stay in the history; open one in the workbench to register
          it again.
        </p>
      )}
      {remove.error && <FaultNote error={remove.error} />}
      <Facts
        facts={[
          [
            'Op',
            <Link key="op" href={workbenchPath(shown.registration.op)}>
              {shown.registration.op}
            </Link>,
          ],
          ['Registered', formatTime(shown.at)],
          ['Digest', <CopyValue key="digest" value={shown.digest} label="the digest" />],
          ['Bound to', <BoundComponents key="bound" kernel={kernel} />],
        ]}
      />
      <Confirm
        title={`Delete ${kernel}?`}
        isOpen={isDeleting}
        action="Delete"
        busy={remove.isPending}
        onConfirm={() => remove.mutate()}
        onClose={() => setDeleting(false)}
      >
        <p>
          It can no longer be bound. Its registrations and benches stay in the history, and this page still
          shows them. A bound kernel must be unbound first.
        </p>
      </Confirm>
      {workbench.dialog}
    </Panel>
  );
}

/** Source, manifest, report, profile and bindings of a registration. */
function Registration({ kernel, shown, isLast }: { kernel: string; shown: Version; isLast: boolean }) {
  const { registration } = shown;
  const detail = useVersion(kernel, shown.at);
  const parts = useParts();
  const [marks, setMarks] = useState<readonly Diagnostic[]>([]);
  const [goTo, setGoTo] = useState<{ line: number; column: number }>();
  const report = detail.data?.report;
  const hasReport = report !== undefined;
  useEffect(() => {
    if (hasReport && location.hash === '#report')
      document.querySelector('#report')?.scrollIntoView({ block: 'start' });
  }, [hasReport]);
  const registered = parts.data?.kernels.find(({ name }) => name === kernel);
  const isCurrent = isLast && registered !== undefined;
  return (
    <>
      <Panel title="Source">
        <div className={css['bench']}>
          <CodeEditor
            label={`Source of ${kernel}`}
            language="wgsl"
            value={registration.source}
            diagnostics={[...(report ? reportDiagnostics(report) : []), ...marks]}
            lines={30}
            goTo={goTo}
          />
          <div className={css['side']}>
            <h3>Manifest</h3>
            <ManifestFacts registration={registration} />
          </div>
        </div>
      </Panel>
      <div id="report">
        {detail.error && <FaultNote error={detail.error} retry={() => void detail.refetch()} />}
        {detail.isPending && <Loading what="the gate's report" />}
        {report && <GateReport report={report} isStale={false} areCasesFolded goTo={setGoTo} />}
      </div>
      {isCurrent && report?.stages.some(({ stage, ok }) => stage === 'pipeline' && ok) && (
        <ProfilePanel
          kernel={kernel}
          onProfile={(profile) => setMarks(profileDiagnostics(profile))}
          goTo={setGoTo}
        />
      )}
      {isCurrent && (registered.state === 'accepted' || registered.state === 'unverified') && (
        <Panel title={`Bind ${kernel}`}>
          <BindForm kernel={kernel} globs={directives(registration.source, 'bind')} />
        </Panel>
      )}
    </>
  );
}
