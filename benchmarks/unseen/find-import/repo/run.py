from app.view import show

show("{}")
