document.body.append('demo');
