import { Empty, Page } from '../../parts/index.tsx';

export default function View() {
  return (
    <Page title="chat">
      <Empty title="Nothing here yet." />
    </Page>
  );
}
