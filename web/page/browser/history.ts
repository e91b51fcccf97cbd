document.querySelector('#page')?.append('');
